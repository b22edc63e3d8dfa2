"""Accuracy against the number of synthetic images: FedEAS's trade-off."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedeas_app.comparison.reading import Comparison
from fedeas_app.figures.arms import FloatArray, Shown, deviation, shown_arms, spread, tell
from fedeas_app.figures.picture import Missing, Picture
from fedeas_app.figures.style import (
    Theme,
    canvas,
    grouped_thousands,
    legend_below,
    legend_height,
    look,
)

_TITLE = "Accuracy against synthetic images"
_CAPTION = (
    "Final test accuracy against the number of images that all clients made together; bars are one "
    "standard deviation over seeds. Up and to the left is better: more accuracy for fewer images."
)
_WIDE = 20  # from this ratio of most to fewest images on, a linear axis would crowd the small ones


@dataclass(frozen=True)
class Cost:
    """What one arm made and reached, by seed, shape (seeds,)."""

    index: int
    label: str
    images: FloatArray
    percent: FloatArray


def of_comparison(comparison: Comparison) -> Picture | Missing:
    """Return a point for each arm."""
    points = costs(shown_arms(comparison))
    if not any(point.images.any() for point in points):
        return Missing(_TITLE, "No run made synthetic images.")
    alt = "Final test accuracy in per cent, and synthetic images: " + tell(
        [(p.label, float(p.percent.mean()), _words(p)) for p in points]
    )
    return Picture("tradeoff", _TITLE, _CAPTION, alt, lambda theme: _draw(theme, points))


def costs(arms: Sequence[Shown]) -> list[Cost]:
    """Return what each arm with a finished round made and reached."""
    return [
        Cost(
            arm.index,
            arm.label,
            np.array([run.synthetic for run in arm.runs if run.accuracies], np.float64),
            np.array([100 * run.accuracies[-1] for run in arm.runs if run.accuracies]),
        )
        for arm in arms
        if any(run.accuracies for run in arm.runs)
    ]


def _words(point: Cost) -> str:
    return f"{spread(point.percent)} with {spread(point.images, ',.0f')} images"


def _draw(theme: Theme, points: Sequence[Cost]) -> Figure:
    figure, (axes,) = canvas(theme, 3.1 + legend_height([point.label for point in points]))
    handles = [_draw_point(axes, theme, point) for point in points]
    _scale_images(axes, np.array([point.images.mean() for point in points]))
    axes.set(xlabel="synthetic images", ylabel="final test accuracy (%)")
    axes.margins(y=0.1)
    legend_below(figure, theme, handles)
    return figure


def _draw_point(axes: Axes, theme: Theme, point: Cost) -> Any:
    """Draw one arm, and return its marker without bars for the legend."""
    style = look(theme, point.index)
    bars = axes.errorbar(
        point.images.mean(), point.percent.mean(),
        xerr=deviation(point.images), yerr=deviation(point.percent),
        color=style.color, marker=style.marker, markersize=6.5, linestyle="none",
        elinewidth=1.3, capsize=2.5,
    )  # fmt: skip
    marker = bars.lines[0]
    marker.set_label(point.label)
    return marker


def _scale_images(axes: Axes, images: FloatArray) -> None:
    """Show 0, and the fewest images as well as the most."""
    fewest, most = images[images > 0].min(), images.max()
    if most > _WIDE * fewest:
        first, last = np.floor(np.log10(fewest)), np.floor(np.log10(most))
        axes.set_xscale("symlog", linthresh=10.0**first, linscale=0.5)
        axes.set_xticks([0, *10.0 ** np.arange(first, last + 1)])
        axes.set_xlim(left=-0.15 * 10.0**first)
    else:
        axes.set_xlim(left=-0.04 * most)
        axes.locator_params(axis="x", nbins=5)
    grouped_thousands(axes)
