"""What there is to say of one run, as facts and tables."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedeas_app.data.scenarios import describe_in_words
from fedeas_app.report.parts import Fact, Table
from fedeas_app.runs.reading import Run
from fedeas_app.settings import OWN, Settings
from fedeas_app.wording import NONE, listed, number, percent, plural, seconds, whole

_DISTINCT_FAILURES = 50
_LONGEST_TEXT = 2000  # characters of a client's own words
_MOST_ROWS = 2000  # of a table


def title(run: Run) -> str:
    """Name a run by what tells it from others."""
    settings = run.settings
    if settings.generator_only:
        return f"A generator trained by clients on {dataset_name(settings)}"
    policy = "without synthesis" if settings.policy == "none" else f"with policy {settings.policy}"
    return f"{settings.strategy} {policy} on {dataset_name(settings)}"


def dataset_name(settings: Settings) -> str:
    """Return a hub id as it is, and of a path its last part; then the subset, if one is used."""
    dataset = settings.dataset
    name = Path(dataset).name if dataset.startswith(("/", "./", "../", "~")) else dataset
    return name + settings.subset_note


def headline(run: Run) -> str:
    """Say in a sentence what was run."""
    settings = run.settings
    classes = len(run.manifest.get("classes", []))
    holding = (
        f" hold {whole(run.plan['real'])} real images of {plural(classes, 'class', 'classes')}"
        if "real" in run.plan and classes
        else " share the data"
    )
    who = f"{_clients(settings)}{holding} ({_spread(settings)})"
    if settings.generator_only:
        return f"{who} and train a generator of them, together; seed {settings.seed}."
    epochs = plural(settings.local_epochs, "local epoch")
    return (
        f"{who}{_making(run)}; "
        f"{plural(settings.rounds, 'round')} of {settings.strategy}, {epochs} each, "
        f"{percent_short(settings.fraction_train)} of the clients a round, seed {settings.seed}."
    )


def _clients(settings: Settings) -> str:
    clients = settings.num_clients
    return "Clients" if isinstance(clients, str) else plural(clients, "client")


def _spread(settings: Settings) -> str:
    if settings.dataset == OWN:
        return "each its own"
    if settings.partitioner == "iid":
        return "spread evenly"
    if settings.partitioner == "classes":
        return f"{plural(settings.classes_per_client, 'class', 'classes')} each"
    return f"Dirichlet, α = {settings.alpha:g}"


def _making(run: Run) -> str:
    settings = run.settings
    if settings.policy == "none":
        return " and train on these alone"
    uses_beta = settings.policy != "full" and settings.beta != "auto"
    beta = f", β = {settings.beta:g}" if uses_beta else ""
    return f" and add {whole(run.synthetic)} synthetic ones (policy {settings.policy}{beta})"


def percent_short(share: float) -> str:
    """Return a share as 25%, or all."""
    return "all" if share == 1 else f"{share:.0%}"


def remarks(run: Run) -> list[str]:
    """Say which clients are poor, if any."""
    clients = run.settings.num_clients
    return [] if isinstance(clients, str) else describe_in_words(clients, run.settings)


def trouble(run: Run) -> str:
    """Say that a run did not end well, and what of it there is; nothing of a completed one."""
    if run.completed:
        return ""
    left = f"What follows is what it left: {_left(run)}."
    if run.interrupted:
        return f"This run was interrupted. {left}"
    if run.summary.get("status") == "failed":
        return f"This run failed: {short(run.summary.get('reason', 'no reason is known'))} {left}"
    return f"This run has not ended, or was ended from outside before it could say so. {left}"


def _left(run: Run) -> str:
    """Say how many rounds there are, of the generator where it got no farther."""
    settings = run.settings
    if settings.trains_generator and not run.plan:
        wanted = plural(settings.generator_rounds, "round")
        return f"{len(run.generator_rounds):,} of {wanted} of its generator"
    return f"{len(run.trained):,} of {plural(settings.rounds, 'round')}"


def facts(run: Run) -> list[Fact]:
    """Return the numbers that matter most; those of a generator alone stand with it."""
    if run.settings.generator_only:
        return [_time(run)]
    return [*_accuracies(run), *_measured(run), _synthesis(run), _failures(run), _time(run)]


def _accuracies(run: Run) -> list[Fact]:
    reached = run.accuracies
    if not reached:
        return []
    last = "Final accuracy" if run.completed else "Latest accuracy"
    best = max(reached)
    found = [
        Fact(last, percent(reached[-1]), f"after round {len(reached):,}"),
        Fact("Best accuracy", percent(best), f"in round {reached.index(best) + 1:,}"),
    ]
    if "auc" in run.summary:
        auc = number(run.summary["auc"], ".4f")
        found.append(Fact("AUC", auc, "mean height of the accuracy curve"))
    return found


def _measured(run: Run) -> list[Fact]:
    """Say who evaluated the global model; a record without a manifest does not know."""
    who = run.manifest.get("evaluated-on")
    if not run.rounds or who is None:
        return []
    if who != "clients":
        return [Fact("Evaluated on", "server", "its test set")]
    held = next((line["held-out"] for line in reversed(run.rounds) if "held-out" in line), None)
    number_of = "" if held is None else f"{whole(held)} "
    return [Fact("Evaluated on", "clients", f"{number_of}images that they hold out")]


def _synthesis(run: Run) -> Fact:
    real, synthetic = run.plan.get("real", 0), run.synthetic
    share = f"{synthetic / (real + synthetic):.1%} of all images" if synthetic else ""
    return Fact("Synthetic images", whole(synthetic) if run.plan else NONE, share)


def _failures(run: Run) -> Fact:
    lost = sum(len(line.get("failures", {})) for line in run.rounds)
    remark = "" if run.completed else "in the rounds that are recorded"
    return Fact("Replies that did not count", whole(lost), "see Failures" if lost else remark)


def _time(run: Run) -> Fact:
    phases = run.summary.get("seconds", {})
    parts = ", ".join(f"{name} {seconds(value)}" for name, value in phases.items())
    return Fact("Time", seconds(sum(phases.values()) if phases else None), parts)


def plan_facts(run: Run) -> list[Fact]:
    """Return the totals of the plan; none where the run did not get that far."""
    plan = run.plan
    if not plan:
        return []
    made = number(plan.get("made"), ",.0f")
    found = [
        Fact("Real images", whole(plan.get("real"))),
        Fact("Synthetic images", whole(plan.get("synthetic")), f"{made} made by this run"),
        Fact(
            "Imbalance I",
            f"{number(plan.get('imbalance-before'), '.3f')} → "
            f"{number(plan.get('imbalance-after'), '.3f')}",
            "before and after synthesis; 0 is balanced",
        ),
    ]
    beta = plan.get("beta")
    return [*found, Fact("β", number(beta, "g"))] if beta else found


def plan_table(run: Run) -> Table:
    """Return every client's part in the plan."""
    scenario = run.manifest.get("scenario", {})
    kinds = {name: set(scenario.get(f"{name}-clients", [])) for name in ("noisy", "rare")}
    lines = run.plan.get("clients", [])[:_MOST_ROWS]
    rows = [_client_row(line, kinds, _classes_held(run)) for line in lines]
    headers = [
        "client", "kind", "real", "classes", "synthetic", "made", "imbalance", "after", "seconds",
    ]  # fmt: skip
    wanted = [
        n for n, _ in enumerate(headers) if n != 1 or any(row[1] for row in rows)
    ]  # no column of nothing
    if run.counts is None:
        wanted.remove(3)
    return Table(
        "Images of every client",
        [headers[n] for n in wanted],
        [[row[n] for n in wanted] for row in rows],
    )


def _classes_held(run: Run) -> dict[int, str]:
    if run.counts is None:
        return {}
    held = (np.asarray(run.counts.real) > 0).sum(axis=1)
    return {k: f"{n} of {len(run.counts.classes)}" for k, n in enumerate(held.tolist())}


def _client_row(
    line: Mapping[str, Any], kinds: Mapping[str, set[int]], held: Mapping[int, str]
) -> list[str]:
    client = line.get("partition-id")
    return [
        str(client),
        ", ".join(name for name, clients in kinds.items() if client in clients),
        whole(line.get("num-examples")),
        held.get(client, NONE) if isinstance(client, int) else NONE,
        whole(line.get("synthetic")),
        whole(line.get("made")),
        number(line.get("imbalance-before"), ".3f"),
        number(line.get("imbalance-after"), ".3f"),
        number(line.get("seconds"), ".1f"),
    ]


def rounds_table(run: Run) -> Table:
    """Return what every round came to; round 0 is the initial model."""
    headers = (
        "round", "accuracy", "test loss", "training loss", "clients", "effective", "drift",
        "failures", "seconds",
    )  # fmt: skip
    notes = (
        "effective: 1/Σw², how many equal clients would average as well. drift: weighted mean of "
        "‖Δ_k − Δ̄‖² / ‖Δ̄‖². Round 0 is the initial model; a round without an accuracy is the one "
        "in which the run ended.",
    )
    rows = [_round_row(line) for line in run.rounds[:_MOST_ROWS]]
    return Table("Rounds", headers, rows, notes=notes)


def _round_row(line: Mapping[str, Any]) -> list[str]:
    taken = line.get("participants")
    return [
        str(line.get("round")),
        percent(line.get("accuracy")),
        number(line.get("loss"), ".4f"),
        number(line.get("train-loss"), ".4f"),
        NONE if taken is None else whole(len(taken)),
        number(line.get("effective-clients"), ".1f"),
        number(line.get("drift"), ".3g"),
        whole(len(line.get("failures", {}))),
        number(line.get("seconds"), ".1f"),
    ]


def failures_table(run: Run) -> Table:
    """Return the clients' replies that did not count, one row for each reason."""
    return failures_of(run.rounds, "Replies that did not count", "rounds.jsonl")


def failures_of(lines: Sequence[Mapping[str, Any]], caption: str, source: str) -> Table:
    """Return the failures in the lines of a file, one row for each reason."""
    where: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for line in lines:
        for client, reason in line.get("failures", {}).items():
            where[str(reason)].append((line["round"], str(client)))
    shown = sorted(where.items(), key=lambda item: -len(item[1]))[:_DISTINCT_FAILURES]
    left = len(where) - len(shown)
    more = plural(left, "more reason is", "more reasons are")
    notes = (f"{more} in {source}.",) if left else ()
    rows = [_failure_row(reason, places) for reason, places in shown]
    headers = ("reason", "times", "clients", "rounds")
    return Table(caption, headers, rows, frozenset({0, 2, 3}), notes)


def no_failures(run: Run) -> str:
    """Say that no failure is known; of the round in which a run ended there may be no record."""
    if run.completed:
        return "No client failed in a round, and every reply counted."
    return "In the rounds that are recorded no client failed, and every reply counted."


def _failure_row(reason: str, places: Sequence[tuple[int, str]]) -> list[str]:
    clients = sorted({client for _, client in places}, key=lambda c: (len(c), c))
    rounds = sorted({round_ for round_, _ in places})
    return [short(reason), whole(len(places)), listed(clients), listed(rounds)]


def short(text: Any) -> str:
    """Cut a text that came from elsewhere, and end it as a sentence."""
    words = str(text).strip()
    cut = words if len(words) <= _LONGEST_TEXT else f"{words[:_LONGEST_TEXT]} …"
    return cut if cut.endswith((".", "!", "?", "…")) else f"{cut}."


def versions_table(run: Run) -> Table:
    """Return the versions that the run was made with."""
    machine = run.manifest.get("machine", {})
    rows = [(str(k), str(v)) for k, v in run.manifest.get("versions", {}).items()]
    rows += [(f"machine: {name}", str(value)) for name, value in machine.items()]
    return Table("Versions and machine", ("what", "version"), rows, frozenset({0, 1}))


def digests_table(run: Run) -> Table:
    """Return the digests of what the run was made of; what it did not use has none."""
    digests = run.manifest.get("digests", {})
    rows = [(str(k), str(v) or NONE) for k, v in digests.items()]
    return Table("SHA-256 digests", ("of", "digest"), rows, frozenset({0, 1}))
