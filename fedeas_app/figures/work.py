"""Accuracy against the images that clients trained on: rounds with synthetic images are longer."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedeas_app.comparison.reading import Comparison
from fedeas_app.figures.arms import Series, Shown, measured_on, series, shown_arms, tell
from fedeas_app.figures.over_rounds import MANY, Scale, draw_over_rounds
from fedeas_app.figures.picture import Missing, Picture

_TITLE = "Accuracy against training work"
_SCALE = Scale("test accuracy (%)", lowest=0, across="images trained on, real and synthetic")
_MANY = " Each arm has its own panel; the dashed line is the first arm."


def of_comparison(comparison: Comparison) -> Picture | Missing:
    """Return a curve for each arm."""
    arms = shown_arms(comparison)
    lines = [replace(line, across=_work(arms, line)) for line in _accuracies(arms)]
    if not lines:
        return Missing(_TITLE, "No round was finished.")
    place = measured_on(run for arm in arms for run in arm.runs)
    caption = (
        f"Accuracy of the global model on {place} against all images that clients have trained "
        "on by then, each as often as it was used: means over seeds. An arm with synthetic images "
        "takes more steps in a round; where curves lie upon each other, more rounds without them "
        "would have done as much."
    )
    return Picture(
        "work",
        _TITLE,
        caption + (_MANY if len(lines) > MANY else ""),
        _alt(lines),
        lambda theme: draw_over_rounds(theme, lines, _SCALE),
    )


def _accuracies(arms: Sequence[Shown]) -> list[Series]:
    return series(arms, lambda line: 100 * line["accuracy"])


def _work(arms: Sequence[Shown], line: Series) -> Sequence[float]:
    """Return the images trained on after each round, the mean over an arm's seeds, shape (R,)."""
    (arm,) = (arm for arm in arms if arm.index == line.index)
    rounds = line.values.shape[1]
    totals: Sequence[float] = np.mean([run.work[:rounds] for run in arm.runs], axis=0)
    return totals


def _alt(lines: Sequence[Series]) -> str:
    ends = [(line.label, float(line.mean[-1]), _words(line)) for line in lines]
    return "Final test accuracy in per cent, and images trained on: " + tell(ends)


def _words(line: Series) -> str:
    across = line.across if line.across is not None else [np.nan]
    return f"{line.mean[-1]:.1f} after {across[-1]:,.0f} images"
