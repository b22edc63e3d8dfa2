"""Test accuracy over rounds."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedeas_app.comparison.reading import Comparison
from fedeas_app.figures.arms import (
    Series,
    Shown,
    measured_on,
    series,
    shown_arms,
    shown_run,
    spread,
    tell,
)
from fedeas_app.figures.over_rounds import RANGE, Scale, draw_over_rounds, panels_note
from fedeas_app.figures.picture import Missing, Picture, to_png
from fedeas_app.files import write_bytes
from fedeas_app.runs.reading import Run

_TITLE = "Accuracy over rounds"
_SCALE = Scale("test accuracy (%)", lowest=0)


def of_run(run: Run) -> Picture | Missing:
    """Return one run's curve."""
    caption = f"Accuracy of the global model on {measured_on([run])} after each round."
    return _picture(shown_run(run), caption)


def of_comparison(comparison: Comparison) -> Picture | Missing:
    """Return a curve for each arm."""
    arms = shown_arms(comparison)
    place = measured_on(run for arm in arms for run in arm.runs)
    caption = (
        f"Accuracy of the global model on {place} after each round: the mean over seeds. {RANGE} "
        "A curve that is higher early needs fewer rounds for the same accuracy."
    )
    return _picture(arms, caption)


def plot_accuracy(accuracies: Sequence[float], path: Path) -> None:
    """Draw test accuracy over rounds 1 to R into a PNG file, atomically."""
    line = Series(0, "accuracy", 100 * np.array([accuracies]))
    write_bytes(path, to_png(_drawing("accuracy", "", "", [line]).draw()))


def _picture(arms: list[Shown], caption: str) -> Picture | Missing:
    lines = series(arms, lambda line: 100 * line["accuracy"])
    if not lines:
        return Missing(_TITLE, "No round was finished.")
    finals = [(line, line.values[:, -1]) for line in lines]
    alt = "Final test accuracy in per cent: " + tell(
        [(line.label, float(final.mean()), spread(final)) for line, final in finals]
    )
    return _drawing("accuracy", caption + panels_note(lines), alt, lines)


def _drawing(name: str, caption: str, alt: str, lines: Sequence[Series]) -> Picture:
    return Picture(name, _TITLE, caption, alt, lambda theme: draw_over_rounds(theme, lines, _SCALE))
