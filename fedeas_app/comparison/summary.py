"""What each arm came to over its seeds, as numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fedeas_app.comparison.reading import Arm, Comparison
from fedeas_app.comparison.statistics import PairedDifference, Spread, paired_difference, spread
from fedeas_app.runs.reading import Run
from fedeas_app.wording import plural

PHASES: Final = ("load", "generator", "prepare", "train")
"""The phases of a run, of which its summary has the seconds; ``generator`` where one is trained."""


@dataclass(frozen=True)
class ArmSummary:
    """An arm over its seeds.

    Attributes
    ----------
    label : str
    seeds : int
        Completed runs; where it is 0, the rest is None.
    final, best, auc : Spread or None
        Test accuracies.
    rounds_to_target : Spread or None
        Over the runs that reached it; None without a target and where none did.
    synthetic, made : Spread or None
        Synthetic images, and those of them that were not in the cache before.
    training_generator : Spread or None
        Seconds of the rounds of a generator of the clients' own, until they have it and have
        searched it for copies; None where none is trained.
    generating, training : Spread or None
        Seconds: the sum of the clients' own times, several of which ran at once; and from the first
        round to the last.
    """

    label: str
    seeds: int
    final: Spread | None
    best: Spread | None
    auc: Spread | None
    rounds_to_target: Spread | None
    synthetic: Spread | None
    made: Spread | None
    training_generator: Spread | None
    generating: Spread | None
    training: Spread | None


@dataclass(frozen=True)
class ArmDifference:
    """An arm against its baseline, in pairs of one seed."""

    label: str
    baseline: str
    final: PairedDifference | None
    auc: PairedDifference | None


def summarise(comparison: Comparison) -> list[ArmSummary]:
    """Return what every arm came to."""
    return [_summary(arm, comparison.target) for arm in comparison.arms]


def shortfall(comparison: Comparison) -> str:
    """Return how many cells are finished: ``9 of 12 cells finished, 1 failed, 2 to run``.

    Empty where all of them are.
    """
    finished = sum(len(arm.runs) for arm in comparison.arms)
    others = {"failed": len(comparison.failed), "to run": comparison.waiting}
    if not any(others.values()):
        return ""
    total = plural(finished + sum(others.values()), "cell")
    rest = [f"{number:,} {state}" for state, number in others.items() if number]
    return f"{finished:,} of {total} finished, {', '.join(rest)}"


def differences(comparison: Comparison) -> list[ArmDifference]:
    """Return every arm that has a baseline against it."""
    return [
        ArmDifference(
            arm.label,
            arm.baseline,
            _difference(arm, comparison.arm(arm.baseline), final),
            _difference(arm, comparison.arm(arm.baseline), auc),
        )
        for arm in comparison.arms
        if arm.baseline is not None
    ]


def final(run: Run) -> float:
    """Return the test accuracy after the last round."""
    return float(run.summary["final"])


def auc(run: Run) -> float:
    """Return the area under the accuracy curve."""
    return float(run.summary["auc"])


def made(run: Run) -> int:
    """Return the synthetic images that were not in the cache before."""
    return int(run.plan.get("made", 0))


def generating(run: Run) -> float:
    """Return the sum of the seconds that clients spent on generating, several of them at once.

    Not those of the phase ``prepare``, which begins with the start of the simulation's workers.
    """
    return float(sum(client["seconds"] for client in run.plan.get("clients", [])))


def _summary(arm: Arm, target: float | None) -> ArmSummary:
    def over(value: Callable[[Run], float]) -> Spread | None:
        return spread([value(run) for run in arm.runs])

    return ArmSummary(
        label=arm.label,
        seeds=len(arm.runs),
        final=over(final),
        best=over(lambda run: run.summary["best"]),
        auc=over(auc),
        rounds_to_target=_rounds_to(arm, target),
        synthetic=over(lambda run: run.synthetic),
        made=over(made),
        training_generator=spread([r.seconds("generator") for r in arm.runs if _trains(r)]),
        generating=over(generating),
        training=over(lambda run: run.seconds("train")),
    )


def _trains(run: Run) -> bool:
    return run.settings.trains_generator


def _rounds_to(arm: Arm, target: float | None) -> Spread | None:
    if target is None:
        return None
    reached = [run.rounds_to(target) for run in arm.runs]
    return spread([number for number in reached if number is not None])


def _difference(arm: Arm, baseline: Arm, value: Callable[[Run], float]) -> PairedDifference | None:
    ours, theirs = (
        {run.settings.seed: value(run) for run in each.runs} for each in (arm, baseline)
    )
    return paired_difference(ours, theirs)
