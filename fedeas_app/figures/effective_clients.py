"""How many clients each round's average effectively has."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedeas_app.comparison.reading import Comparison
from fedeas_app.figures.arms import Series, Shown, series, shown_arms, shown_run, tell
from fedeas_app.figures.over_rounds import RANGE, Scale, draw_over_rounds, panels_note
from fedeas_app.figures.picture import Missing, Picture
from fedeas_app.runs.reading import Run

_TITLE = "Effective number of clients"
_CAPTION = (
    "1 / Σ w², with w the weights of a round's participants, which sum to 1: the number of equally "
    "weighted clients that would average as much noise away. It is the number of participants when "
    "all weigh the same, and 1 when one client decides alone."
)
_COHORT = " The dashed line is the number of participants."
_SCALE = Scale("effective clients", lowest=0)


def of_run(run: Run) -> Picture | Missing:
    """Return the run's line."""
    return _picture(shown_run(run), _CAPTION)


def of_comparison(comparison: Comparison) -> Picture | Missing:
    """Return a line for each arm."""
    return _picture(shown_arms(comparison), f"{_CAPTION} Lines are means over seeds. {RANGE}")


def _picture(arms: Sequence[Shown], caption: str) -> Picture | Missing:
    lines = series(arms, lambda line: line.get("effective-clients"))
    if not lines:
        return Missing(_TITLE, "The record holds no weights.")
    cohort = _cohort(arms)
    means = [(line.label, float(np.nanmean(line.values))) for line in lines]
    alt = "Mean effective number of clients: " + tell(
        [(label, value, f"{value:.1f}") for label, value in means]
    )
    return Picture(
        "effective-clients",
        _TITLE,
        caption + panels_note(lines, cohort) + (_COHORT if cohort else ""),
        alt,
        lambda theme: draw_over_rounds(theme, lines, _SCALE, cohort),
    )


def _cohort(arms: Sequence[Shown]) -> Series | None:
    """Return the participants of every round, where they are as many in all arms and seeds."""
    sizes = series(arms, _participants)
    first = sizes[0].values[:1]
    same = all(each.values.shape[1:] == first.shape[1:] for each in sizes) and all(
        np.array_equal(row, first[0], equal_nan=True) for each in sizes for row in each.values
    )
    return Series(0, "participants", first) if same else None


def _participants(line: Mapping[str, Any]) -> float | None:
    return len(line.get("participants", [])) or None
