"""Whether runs really had the same data, partition, first model, cohorts and software."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final

from fedeas_app.comparison.cells import matters
from fedeas_app.comparison.reading import Comparison
from fedeas_app.runs.reading import Run
from fedeas_app.settings import FEDERATED, Value

_IMAGES: Final = (
    "dataset", "dataset-revision", "dataset-subset", "image-column", "label-column", "classes",
    "image-size", "image-channels",
)  # fmt: skip
_DATA: Final = (*_IMAGES, "train-samples", "test-samples", "test-dataset", "seed")
_CLIENTS: Final = (
    *_DATA, "num-clients", "partitioner", "alpha", "classes-per-client", "min-partition-size",
    "noisy-fraction", "noise-rate", "rare-fraction", "rare-cap",
)  # fmt: skip
_DEPENDS_ON: Final = {
    "train": _DATA,
    "test": _DATA,
    "partition": _CLIENTS,
    "initial-model": (*_DATA, "model", "norm"),
}
_COHORTS: Final = ("seed", "num-clients", "fraction-train")
_ALL: Final = (*_CLIENTS, "model", "norm", "fraction-train")
_GENERATOR: Final = (
    *_IMAGES, "generator", "generator-revision", "generator-digest", "generator-classes",
    "generator-prompt", "pool-dataset", "sampler", "sampler-steps", "guidance-scale",
    "generation-precision",
)  # fmt: skip


def disagreements(comparison: Comparison) -> list[str]:
    """Return in a sentence each what differs between runs although it must not.

    Then their data or their software changed between them, and pairs of them say nothing.
    """
    runs = _runs(comparison)
    return [*_versions(runs), *_generators(runs), *_digests(runs), *_cohorts(runs)]


def any_compared(comparison: Comparison) -> bool:
    """Tell whether two runs share a seed and all that describes the data, model and cohorts."""
    return any(len(group) > 1 for group in _grouped(_runs(comparison), _ALL))


def _runs(comparison: Comparison) -> list[Run]:
    return [run for arm in comparison.arms for run in arm.runs]


def _versions(runs: Sequence[Run]) -> Iterator[str]:
    """Compare software over all runs: numbers and random draws may change with it."""
    changed = {run.directory.name: _changed(runs[0], run) for run in runs}
    odd = [name for name, libraries in changed.items() if libraries]
    if odd:
        libraries = sorted(set().union(*changed.values()))
        yield (
            f"the versions of {', '.join(libraries)} with {', '.join(odd)} are not those with "
            f"{runs[0].directory.name}"
        )


def _changed(one: Run, other: Run) -> set[str]:
    ours, theirs = (run.manifest.get("versions", {}) for run in (one, other))
    return {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)}


def _generators(runs: Sequence[Run]) -> Iterator[str]:
    """Compare generators over seeds too, as they do not depend on one."""
    shared = [run for run in runs if _generator(run) and run.settings.generator != FEDERATED]
    for group in _grouped(shared, _GENERATOR):
        odd = [run for run in group if _generator(run) != _generator(group[0])]
        if odd:
            why = "though they are to have the same generator"
            yield _sentence("the digest of generator", group[0], odd, why)


def _generator(run: Run) -> str:
    """Return the digest of what made a run's images; empty without synthesis.

    Where each SuperNode has a generator of its own, the plan and not the server knows it.
    """
    if run.settings.policy == "none":
        return ""
    digests = run.manifest.get("digests", {})
    return str(digests.get("generator") or run.plan.get("generator-digest") or "")


def _digests(runs: Sequence[Run]) -> Iterator[str]:
    for name, keys in _DEPENDS_ON.items():
        for group in _grouped(runs, keys):
            odd = [run for run in group if _digest(run, name) != _digest(group[0], name)]
            if odd:
                yield _sentence(f"the digest of {name}", group[0], odd)


def _cohorts(runs: Sequence[Run]) -> Iterator[str]:
    for group in _grouped(runs, _COHORTS):
        first = cohorts(group[0])
        odd = [run for run in group if any(a != b for a, b in _together(first, cohorts(run)))]
        if odd:
            yield _sentence("the clients of the rounds", group[0], odd)


def cohorts(run: Run) -> list[set[int]]:
    """Return the partitions that were asked in each round, whether their replies counted or not."""
    return [
        {participant["partition"] for participant in line.get("participants", [])}
        | set(map(int, line.get("failures", {})))
        for line in run.trained
    ]


def _together(
    one: Iterable[set[int]], other: Iterable[set[int]]
) -> Iterator[tuple[set[int], set[int]]]:
    return zip(one, other, strict=False)  # runs may have different numbers of rounds


def _grouped(runs: Sequence[Run], keys: Sequence[str]) -> list[list[Run]]:
    groups: dict[Hashable, list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(_values(run, keys)), []).append(run)
    return list(groups.values())


def _values(run: Run, keys: Sequence[str]) -> Iterator[Value | None]:
    flat = run.settings.to_flat()
    return (flat[key] if matters(key, run.settings) else None for key in keys)


def _digest(run: Run, name: str) -> str:
    return str(run.manifest.get("digests", {}).get(name))


def _sentence(
    what: str, first: Run, odd: Sequence[Run], why: str = "though they share a seed"
) -> str:
    names = ", ".join(run.directory.name for run in odd)
    return f"{what} of {names} is not that of {first.directory.name}, {why}"
