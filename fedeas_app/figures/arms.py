"""What figures draw: arms with their place in the comparison, and numbers over their seeds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedeas_app.comparison.reading import Comparison
from fedeas_app.runs.reading import Run

FloatArray = NDArray[np.float64]

_NAMED = 8  # arms whose numbers are all told in the words for those who do not see the figure


@dataclass(frozen=True)
class Shown:
    """One arm of a comparison, or a run by itself.

    Attributes
    ----------
    index : int
        Its place, which decides its look in every figure.
    label : str
    runs : tuple of Run
        At least one.
    """

    index: int
    label: str
    runs: tuple[Run, ...]


def shown_arms(comparison: Comparison) -> list[Shown]:
    """Return the arms with at least one run."""
    return [
        Shown(index, arm.label, arm.runs)
        for index, arm in enumerate(comparison.arms)
        if arm.runs
    ]  # fmt: skip


def shown_run(run: Run) -> list[Shown]:
    """Return a run as an arm of its own."""
    return [Shown(0, f"{run.settings.strategy} {run.settings.policy}", (run,))]


def measured_on(runs: Iterable[Run]) -> str:
    """Say on which images the accuracy and the test loss of runs were measured.

    Sites with data of their own evaluate the global model themselves where the server has no
    test set; records from before that was possible do not say.
    """
    on_clients = {run.manifest.get("evaluated-on") == "clients" for run in runs}
    if on_clients == {True}:
        return "the images that the clients hold out"
    if True in on_clients:
        return "the server's test set or, where it has none, the images that the clients hold out"
    return "the server's test set"


@dataclass(frozen=True)
class Series:
    """A value over rounds 1 to R for each seed.

    Attributes
    ----------
    index : int
    label : str
    values : array, shape (seeds, R)
        nan where a round has none.
    across : sequence of float, shape (R,), optional
        Where each round lies on the axis below, if not at its number.
    """

    index: int
    label: str
    values: FloatArray
    across: Sequence[float] | None = None

    @property
    def mean(self) -> FloatArray:
        """The mean over the seeds that have a value, shape (R,)."""
        known = ~np.isnan(self.values)
        total = np.where(known, self.values, 0.0).sum(axis=0)
        number = known.sum(axis=0)
        return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def series(
    arms: Sequence[Shown], read: Callable[[Mapping[str, Any]], float | None]
) -> list[Series]:
    """Read a value of every round of every run; arms without any are left out.

    Parameters
    ----------
    arms : sequence of Shown
    read : callable
        From a line of ``rounds.jsonl`` to its value, or None.
    """
    found = (Series(arm.index, arm.label, _values(arm.runs, read)) for arm in arms)
    return [each for each in found if np.isfinite(each.values).any()]


def _values(runs: Sequence[Run], read: Callable[[Mapping[str, Any]], float | None]) -> FloatArray:
    """Return the values of the rounds that all runs have, shape (seeds, R)."""
    rounds = min(len(run.trained) for run in runs)
    table = [[read(line) for line in run.trained[:rounds]] for run in runs]
    return np.array(table, dtype=np.float64).reshape(len(runs), rounds)


def deviation(values: ArrayLike) -> float:
    """Return the standard deviation over seeds (n − 1 below); 0 for one seed."""
    array = np.asarray(values, dtype=np.float64)
    return float(array.std(ddof=1)) if array.size > 1 else 0.0


def spread(values: ArrayLike, form: str = ".1f") -> str:
    """Return values over seeds as ``21.3 ± 2.4``, or the one value."""
    array = np.asarray(values, dtype=np.float64)
    mean = format(float(array.mean()), form)
    return f"{mean} ± {deviation(array):{form}}" if array.size > 1 else mean


def tell(values: Sequence[tuple[str, float, str]]) -> str:
    """Put labelled numbers into words, the largest first; of many the best three and the last.

    Parameters
    ----------
    values : sequence of (label, value, words)
    """
    ordered = sorted(values, key=lambda item: -item[1])
    words = [f"{label}: {text}" for label, _, text in ordered]
    if len(words) > _NAMED:
        words = [*words[:3], f"… {len(words) - 4} between …", words[-1]]
    return "; ".join(words) + "."
