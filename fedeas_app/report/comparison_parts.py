"""What there is to say of a comparison, as facts, tables and sub-comparisons."""

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean

from fedeas_app.comparison.reading import Comparison
from fedeas_app.comparison.table import tables
from fedeas_app.figures import Missing, Picture
from fedeas_app.figures.budget_map import of_comparison
from fedeas_app.report.parts import Fact, Table
from fedeas_app.report.run_parts import dataset_name, short
from fedeas_app.report.wording import listed, percent, plural, whole
from fedeas_app.runs.reading import Run
from fedeas_app.settings import Value

_MOST_MAPS = 6
_NOT_SHARED = ("seed", "run-name", "output-dir")


def runs_of(comparison: Comparison) -> list[Run]:
    """Return all completed runs, arm after arm."""
    return [run for arm in comparison.arms for run in arm.runs]


def title(comparison: Comparison) -> str:
    """Name a comparison by its size and its data."""
    datasets = dict.fromkeys(dataset_name(run.settings) for run in runs_of(comparison))
    on = f" on {listed(list(datasets), 3)}" if datasets else ""
    return f"{plural(len(comparison.arms), 'arm')} compared{on}"


def headline(comparison: Comparison) -> str:
    """Say in a sentence what is compared."""
    runs = runs_of(comparison)
    seeds = sorted({run.settings.seed for run in runs})
    over = f" over {plural(len(seeds), 'seed')} ({listed(seeds)})" if seeds else ""
    varied = listed(comparison.varied)
    differ = f"; arms differ in {varied}" if varied else ""
    against = f"; each is compared with {comparison.baseline}" if comparison.baseline else ""
    return f"{plural(len(runs), 'completed run')}{over}{differ}{against}."


def trouble(comparison: Comparison) -> str:
    """Say what is missing: failed cells, and arms without a single run."""
    failed = len(comparison.failed)
    empty = [arm.label for arm in comparison.arms if not arm.runs]
    sentences = [f"{plural(failed, 'run')} failed, see Failed runs."] if failed else []
    if empty:
        sentences.append(f"Without a completed run: {listed(empty)}.")
    return " ".join(sentences)


def facts(comparison: Comparison) -> list[Fact]:
    """Return the arm with the highest mean of final accuracy, and of AUC, and what all cost."""
    runs = runs_of(comparison)
    if not runs:
        return []
    images = sum(int(run.plan.get("made", 0)) for run in runs)
    hours = sum(sum(run.summary.get("seconds", {}).values()) for run in runs) / 3600
    return [
        *_leaders(comparison),
        Fact("Images generated", whole(images), "by all runs together"),
        Fact("Time", f"{hours:,.1f} h", "of all runs together"),
    ]


def _leaders(comparison: Comparison) -> Iterator[Fact]:
    for key, name in (("final", "Highest final accuracy"), ("auc", "Highest AUC")):
        run_arms = [arm for arm in comparison.arms if arm.runs]
        means = [fmean(run.summary[key] for run in arm.runs) for arm in run_arms]
        best = max(means)
        arm = run_arms[means.index(best)]
        value = percent(best) if key == "final" else f"{best:.4f}"
        yield Fact(name, value, f"{arm.label}, mean of {plural(len(arm.runs), 'seed')}")


def result_tables(comparison: Comparison) -> list[Table]:
    """Return the results and the paired differences, as ``table.md`` has them."""
    found = []
    for each in tables(comparison):
        texts = frozenset(n for n, name in enumerate(each.header) if name in ("arm", "baseline"))
        found.append(Table(each.title, each.header, each.rows, texts, each.notes))
    return found


def failed_table(comparison: Comparison) -> Table:
    """Return the cells that ended early, and why."""
    rows = [(cell.label, str(cell.seed), short(cell.reason)) for cell in comparison.failed]
    return Table("Runs that ended early", ("arm", "seed", "reason"), rows, frozenset({0, 2}))


def budget_maps(comparison: Comparison) -> list[Picture]:
    """Return a map for each further partition of the first seed.

    The comparison's own figures show that of the first; there are more where α is varied, say.
    """
    maps: list[Picture] = []
    for key, part in list(_partitions(comparison).items())[1:_MOST_MAPS]:
        figure = of_comparison(part)
        if not isinstance(figure, Missing):
            maps.append(replace(figure, title=f"{figure.title}: {key}", name=f"map-{len(maps)}"))
    return maps


def _partitions(comparison: Comparison) -> dict[str, Comparison]:
    """Split a comparison by the clients' real images, within its first seed."""
    known = [run for run in runs_of(comparison) if run.counts is not None]
    seed = min((run.settings.seed for run in known), default=0)
    groups: dict[bytes, list[Run]] = {}
    for run in known:
        if run.settings.seed == seed and run.counts is not None:
            groups.setdefault(run.counts.real.tobytes(), []).append(run)
    return {_how(group[0]): _only(comparison, group) for group in groups.values()}


def _how(run: Run) -> str:
    settings = run.settings
    noisy = f", {settings.noisy_fraction:.0%} noisy" if settings.noisy_fraction else ""
    rare = f", {settings.rare_fraction:.0%} rare" if settings.rare_fraction else ""
    clients = f"{settings.num_clients} clients"
    return f"{clients}, {settings.partitioner}, α = {settings.alpha:g}{noisy}{rare}"


def _only(comparison: Comparison, kept: list[Run]) -> Comparison:
    chosen = {run.directory for run in kept}
    arms = tuple(
        replace(arm, runs=tuple(run for run in arm.runs if run.directory in chosen))
        for arm in comparison.arms
    )
    return replace(comparison, arms=arms)


def shared_values(comparison: Comparison) -> dict[str, Value]:
    """Return the keys in which all runs agree."""
    flats = [run.settings.to_flat() for run in runs_of(comparison)]
    if not flats:
        return {}
    return {
        key: value
        for key, value in flats[0].items()
        if key not in _NOT_SHARED and all(flat[key] == value for flat in flats)
    }
