"""Whether runs of one seed really had the same data, partition, first model and cohorts."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final

from fedeas_app.comparison.cells import matters
from fedeas_app.comparison.reading import Comparison
from fedeas_app.runs.reading import Run
from fedeas_app.settings import Value

_DATA: Final = (
    "dataset", "dataset-revision", "image-column", "label-column", "classes", "image-size",
    "image-channels", "train-samples", "test-samples", "test-dataset", "seed",
)  # fmt: skip
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


def disagreements(comparison: Comparison) -> list[str]:
    """Return in a sentence each what differs between runs although it must not.

    Then their data or their software changed between them, and pairs of them say nothing.
    """
    runs = [run for arm in comparison.arms for run in arm.runs]
    return [*_digests(runs), *_cohorts(runs)]


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
        {participant["partition"] for participant in line["participants"]}
        | set(map(int, line["failures"]))
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


def _sentence(what: str, first: Run, odd: Sequence[Run]) -> str:
    names = ", ".join(run.directory.name for run in odd)
    return f"{what} of {names} is not that of {first.directory.name}, though they share a seed"
