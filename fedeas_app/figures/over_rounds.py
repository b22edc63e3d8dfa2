"""Lines over rounds, one for each arm: what the figures of a value in every round share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedeas_app.figures.arms import Series
from fedeas_app.figures.style import (
    Theme,
    canvas,
    fitted,
    grouped_thousands,
    heading,
    legend_below,
    legend_height,
    look,
    plain_logarithm,
    shared_labels,
    whole_numbers,
)

MANY = 8  # more lines than this are drawn in panels of their own
RANGE = "Bands, where drawn, reach from the lowest to the highest seed."
_CLEAR = 4  # bands of more lines than this in one panel would hide each other
_PANEL = 1.35  # inches
_HEADING = 30  # characters, as many as are above a panel without reaching the next one


@dataclass(frozen=True)
class Scale:
    """The axis of the values.

    Attributes
    ----------
    label : str
    logarithmic : bool
    lowest : float or None
        Where the axis begins; None: by itself.
    across : str
        The label of the axis below.
    """

    label: str
    logarithmic: bool = False
    lowest: float | None = None
    across: str = "round"


def draw_over_rounds(
    theme: Theme, lines: Sequence[Series], scale: Scale, reference: Series | None = None
) -> Figure:
    """Draw each arm's mean over seeds, and the range of its seeds.

    Parameters
    ----------
    theme : Theme
    lines : sequence of Series
        More than `MANY` get a panel each, as :func:`panels_note` says.
    scale : Scale
    reference : Series, optional
        Drawn as a neutral dashed line.
    """
    if len(lines) > MANY:
        return _panels(theme, lines, scale, reference or lines[0])
    labels = [line.label for line in [*lines, *([reference] if reference else [])]]
    figure, (axes,) = canvas(theme, 3.1 + legend_height(labels))
    handles = [_draw_line(axes, theme, line, band=len(lines) <= _CLEAR) for line in lines]
    if reference is not None:
        handles.append(_draw_reference(axes, theme, reference))
    _scale(axes, scale)
    axes.set(xlabel=scale.across, ylabel=scale.label)
    if len(handles) > 1:
        legend_below(figure, theme, handles)
    return figure


def panels_note(lines: Sequence[Series], reference: Series | None = None) -> str:
    """Say how to read the panels of many lines, for a caption; nothing for few."""
    if len(lines) <= MANY:
        return ""
    dashed = "" if reference else f", and the dashed line is {lines[0].label}"
    return f" Each arm has its own panel; the shaded area holds the means of all{dashed}."


def _draw_line(axes: Axes, theme: Theme, line: Series, *, band: bool) -> Any:
    """Draw one arm, and return what a legend needs."""
    rounds = _rounds(line)
    style = look(theme, line.index)
    if band and len(line.values) > 1:
        low, high = np.fmin.reduce(line.values), np.fmax.reduce(line.values)
        axes.fill_between(rounds, low, high, color=style.color, alpha=0.13, linewidth=0)
    every = max(1, len(rounds) // 8)
    (handle,) = axes.plot(
        rounds, line.mean, color=style.color, linestyle=style.linestyle, linewidth=1.7,
        marker=style.marker, markersize=4, markevery=every, label=line.label,
    )  # fmt: skip
    return handle


def _draw_reference(axes: Axes, theme: Theme, line: Series) -> Any:
    (handle,) = axes.plot(
        _rounds(line), line.mean, color=theme.neutral, linestyle="--", linewidth=1.2,
        label=line.label,
    )  # fmt: skip
    return handle


def _panels(theme: Theme, lines: Sequence[Series], scale: Scale, dashed: Series) -> Figure:
    rows = -(-len(lines) // 2)
    figure, axes = canvas(theme, _PANEL * rows + 0.5, rows, 2, sharex=True, sharey=True)
    for panel, line in zip(axes, lines, strict=False):
        if line.across is None:  # else the rounds of two arms are not at the same place
            _draw_envelope(panel, theme, lines)
        _draw_reference(panel, theme, dashed)
        _draw_line(panel, theme, line, band=True)
        heading(panel, theme, fitted(line.label, _HEADING))
    for panel in axes:  # they share their axes: only now is it known how far these reach
        _scale(panel, scale)
    if len(axes) > len(lines):  # the last place stays empty: the panel above it is the lowest
        axes[-1].set_visible(False)
        axes[-3].tick_params(labelbottom=True)
    shared_labels(figure, theme, scale.across, scale.label)
    return figure


def _draw_envelope(axes: Axes, theme: Theme, lines: Sequence[Series]) -> None:
    """Shade where the means of all lines are, in the rounds that all have."""
    rounds = min(line.values.shape[1] for line in lines)
    means = np.array([line.mean[:rounds] for line in lines])
    low, high = np.fmin.reduce(means), np.fmax.reduce(means)
    axes.fill_between(range(1, rounds + 1), low, high, color=theme.grid, linewidth=0, zorder=0.5)


def _scale(axes: Axes, scale: Scale) -> None:
    if scale.logarithmic:
        axes.set_yscale("log")
        plain_logarithm(axes.yaxis)
    if scale.lowest is not None:
        axes.set_ylim(bottom=scale.lowest)
    if scale.across == Scale.across:
        whole_numbers(axes)
    else:
        grouped_thousands(axes)


def _rounds(line: Series) -> Any:
    if line.across is not None:
        return line.across
    return np.arange(1, line.values.shape[1] + 1)
