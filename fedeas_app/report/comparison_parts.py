"""What there is to say of a comparison, as facts, tables and sub-comparisons."""

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean

from fedeas_app.comparison.reading import Comparison
from fedeas_app.comparison.summary import shortfall
from fedeas_app.comparison.table import tables
from fedeas_app.figures import Missing, Picture
from fedeas_app.figures.budget_map import TITLE, of_comparison, titled
from fedeas_app.figures.partitions import partition_names, partitions
from fedeas_app.report.parts import Fact, SampleSheet, Table
from fedeas_app.report.run_parts import dataset_name, short
from fedeas_app.report.samples import sample_sheet
from fedeas_app.runs.reading import Run
from fedeas_app.settings import Value
from fedeas_app.wording import listed, percent, plural, seconds, whole

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
    """Say what is missing: cells that failed or are still to run, arms without a single run."""
    missing = shortfall(comparison)
    empty = [arm.label for arm in comparison.arms if not arm.runs]
    why = "; see Failed runs" if comparison.failed else ""
    sentences = [f"{missing}{why}."] if missing else []
    if empty:
        sentences.append(f"Without a completed run: {listed(empty)}.")
    return " ".join(sentences)


def facts(comparison: Comparison) -> list[Fact]:
    """Return the arm with the highest mean of final accuracy, and of AUC, and what all cost."""
    runs = runs_of(comparison)
    if not runs:
        return []
    images = sum(int(run.plan.get("made", 0)) for run in runs)
    time = sum(sum(run.summary.get("seconds", {}).values()) for run in runs)
    return [
        *_leaders(comparison),
        Fact("Images generated", whole(images), "by all runs together"),
        Fact("Time", seconds(time), "of all runs together"),
    ]


def _leaders(comparison: Comparison) -> Iterator[Fact]:
    """Tell who leads among the arms with the most seeds: fewer may be the lucky ones."""
    seeds = max(len(arm.runs) for arm in comparison.arms)
    arms = [arm for arm in comparison.arms if len(arm.runs) == seeds]
    fewer = sum(0 < len(arm.runs) < seeds for arm in comparison.arms)
    without = f"; without {plural(fewer, 'arm')} of fewer seeds" if fewer else ""
    for key, name in (("final", "Highest final accuracy"), ("auc", "Highest AUC")):
        means = [fmean(run.summary[key] for run in arm.runs) for arm in arms]
        best = max(means)
        label = arms[means.index(best)].label
        value = percent(best) if key == "final" else f"{best:.4f}"
        yield Fact(name, value, f"{label}, mean of {plural(seeds, 'seed')}{without}")


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
    """Return a map for each further partition of the seed that the first map is of, up to five.

    The comparison's own figures show that of the first; there are more where α is varied, say.
    """
    groups = partitions(comparison)
    maps: list[Picture] = []
    for group, name in list(zip(groups, partition_names(groups), strict=True))[1:_MOST_MAPS]:
        figure = of_comparison(_only(comparison, group))
        if not isinstance(figure, Missing):
            maps.append(replace(figure, title=titled(name), name=f"map-{len(maps)}"))
    return maps


def maps_left_out(comparison: Comparison) -> list[Missing]:
    """Say how many partitions have no map, as there are too many."""
    left = len(partitions(comparison)) - _MOST_MAPS
    if left <= 0:
        return []
    return [Missing(TITLE, f"{plural(left, 'more partition')} of the same seed.")]


def _only(comparison: Comparison, kept: list[Run]) -> Comparison:
    chosen = {run.directory for run in kept}
    arms = tuple(
        replace(arm, runs=tuple(run for run in arm.runs if run.directory in chosen))
        for arm in comparison.arms
    )
    return replace(comparison, arms=arms)


def sample_sheets(comparison: Comparison) -> list[SampleSheet]:
    """Return what each generator made, of the first run that kept some; or why none did."""
    found: dict[str, SampleSheet] = {}
    for arm in comparison.arms:
        for run in arm.runs:
            generator = str(run.manifest.get("digests", {}).get("generator", ""))
            if generator not in found and (sheet := sample_sheet(run)).image:
                of = f"{arm.label}, seed {run.settings.seed} ({run.directory.name})"
                found[generator] = replace(sheet, of=of)
    return list(found.values()) or [_no_samples(comparison)]


def _no_samples(comparison: Comparison) -> SampleSheet:
    """Return the reason of the first run that should have some."""
    runs = runs_of(comparison)
    if not runs:
        return SampleSheet(absent="No run has completed yet.")
    return sample_sheet(max(runs, key=lambda run: run.settings.policy != "none"))


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
