"""The partitions of a comparison: which runs spread the same images alike, and how they differ."""

from collections.abc import Sequence

from fedeas_app.comparison.cells import matters
from fedeas_app.comparison.reading import Comparison
from fedeas_app.figures.arms import shown_arms
from fedeas_app.figures.concentration import SHAPING
from fedeas_app.runs.reading import Run


def partitions(comparison: Comparison) -> list[list[Run]]:
    """Return the runs whose counts are known, of the first one's seed, by their real images."""
    groups: dict[tuple[object, ...], list[Run]] = {}
    runs = [run for arm in shown_arms(comparison) for run in arm.runs]
    known = [(run, run.counts) for run in runs if run.counts is not None]
    for run, counts in known:
        if run.settings.seed == known[0][0].settings.seed:
            groups.setdefault((counts.real.shape, counts.real.tobytes()), []).append(run)
    return list(groups.values())


def partition_names(groups: Sequence[Sequence[Run]]) -> list[str]:
    """Name each partition by what tells it from the others: ``alpha = 0.1``."""
    flats = [group[0].settings.to_flat() for group in groups]
    differing = [key for key in SHAPING if len({flat[key] for flat in flats}) > 1]
    return [_name(group[0], differing) for group in groups]


def _name(run: Run, keys: Sequence[str]) -> str:
    values = run.settings.to_flat()
    told = [key for key in values if key in keys and matters(key, run.settings)]
    return ", ".join(f"{key} = {values[key]}" for key in told) or run.directory.name
