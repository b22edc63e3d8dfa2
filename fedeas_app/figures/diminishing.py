"""What each further synthetic image brings."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedeas_app import budget
from fedeas_app.comparison.reading import Comparison
from fedeas_app.figures.arms import Shown, shown_arms
from fedeas_app.figures.picture import Missing, Picture
from fedeas_app.figures.skew import Returns, betas_beyond_full, removed, returns
from fedeas_app.figures.style import (
    Theme,
    canvas,
    grouped_thousands,
    legend_below,
    legend_height,
    look,
)
from fedeas_app.runs.reading import ClassCounts, Run

_TITLE = "Imbalance removed against synthetic images"
_DEFINITION = (
    "The imbalance score I = Σ_k (M_k / M)(1 − H̃_k) that is removed, 1 − I(β) / I(0), against the "
    "images made. The line is FedEAS with β rising from 0 until it makes more than full balancing: "
    "where it is steep, images are well spent."
)
_ARMS = (
    "There is a line for each partition; points are the means over seeds of the arms that make "
    "images. Arms that make the same ones share the point of the first."
)
_NO_COUNTS = (
    "How many images of each class every client has is only known for simulations that fedeas "
    "started."
)
_NOTHING = "No client's classes are out of balance."


class Point(NamedTuple):
    """What one way to synthesise makes and removes; ringed where it is the run's own."""

    place: int
    label: str
    made: float
    removed: float
    ringed: bool = False


def of_run(run: Run) -> Picture | Missing:
    """Return FedEAS's curve, and every policy at the run's β, on the run's counts."""
    if run.counts is None:
        return Missing(_TITLE, _NO_COUNTS)
    real = run.counts.real
    if not budget.imbalance(real) > 0:
        return Missing(_TITLE, _NOTHING)
    points = policy_points(run.counts, _beta(run), run.settings.policy)
    caption = f"{_DEFINITION} Points are the policies at β = {_beta(run):g}, the run's own ringed."
    return _picture([_curve(real)], points, caption)


def of_comparison(comparison: Comparison) -> Picture | Missing:
    """Return FedEAS's curve for each partition, and the arms' own means."""
    arms = [_with_counts(arm) for arm in shown_arms(comparison)]
    tables = {
        counts.real.tobytes(): counts.real
        for arm in arms
        for counts in _counts(arm)
        if budget.imbalance(counts.real) > 0
    }
    if not tables:
        return Missing(_TITLE, _NOTHING if any(arm.runs for arm in arms) else _NO_COUNTS)
    points = _distinct([_arm_point(arm) for arm in arms if arm.runs])
    caption = f"{_DEFINITION} {_ARMS}"
    return _picture([_curve(real) for real in tables.values()], points, caption)


def policy_points(counts: ClassCounts, beta: float, own: str) -> list[Point]:
    """Return what each policy makes and removes at one β; those with nowhere to put it not."""
    points = []
    for index, policy in enumerate(budget.POLICIES[1:]):  # the first one makes nothing
        try:
            made = budget.allocate(counts.real, policy, beta=beta)
        except ValueError:
            continue
        gone = removed(counts.real, made)
        points.append(Point(index, policy, float(made.sum()), gone, policy == own))
    return points


def _beta(run: Run) -> float:
    beta = run.settings.beta
    return float(run.plan.get("beta", 0.0)) if isinstance(beta, str) else float(beta)


def _curve(real: Any) -> Returns:
    return returns(real, betas_beyond_full(real))


def _with_counts(arm: Shown) -> Shown:
    return Shown(arm.index, arm.label, tuple(run for run in arm.runs if run.counts is not None))


def _counts(arm: Shown) -> list[ClassCounts]:
    return [run.counts for run in arm.runs if run.counts is not None]


def _arm_point(arm: Shown) -> Point:
    made = [counts.synthetic.sum() for counts in _counts(arm)]
    gone = [removed(counts.real, counts.synthetic) for counts in _counts(arm)]
    return Point(arm.index, arm.label, float(np.mean(made)), float(np.mean(gone)))


def _distinct(points: Sequence[Point]) -> list[Point]:
    """Return the points that make something, each place once."""
    places = {(point.made, point.removed): point for point in reversed(points) if point.made}
    return list(reversed(places.values()))


def _picture(curves: Sequence[Returns], points: Sequence[Point], caption: str) -> Picture:
    words = [f"{p.label}: {p.removed:.0%} with {p.made:,.0f} images" for p in points]
    alt = "Imbalance removed: " + "; ".join(words) + "."
    return Picture(
        "diminishing-returns", _TITLE, caption, alt, lambda theme: _draw(theme, curves, points)
    )


def _draw(theme: Theme, curves: Sequence[Returns], points: Sequence[Point]) -> Figure:
    labels = [point.label for point in points] + ["FedEAS, any β"]
    figure, (axes,) = canvas(theme, 3.2 + legend_height(labels))
    lines = [
        axes.plot(
            curve.made,
            curve.removed,
            color=theme.neutral,
            linewidth=1.4,
            label=labels[-1],
            zorder=1,
        )[0]
        for curve in curves
    ]
    handles = [_draw_point(axes, theme, point) for point in points]
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set(xlabel="synthetic images", ylabel="imbalance removed")
    axes.margins(0.03)
    axes.locator_params(axis="x", nbins=5)
    grouped_thousands(axes)
    legend_below(figure, theme, [lines[0], *handles])
    return figure


def _draw_point(axes: Axes, theme: Theme, point: Point) -> Any:
    style = look(theme, point.place)
    (handle,) = axes.plot(
        point.made, point.removed, color=style.color, marker=style.marker,
        markersize=9 if point.ringed else 6.5, linestyle="none", label=point.label, zorder=3,
        markeredgecolor=theme.text if point.ringed else style.color,
    )  # fmt: skip
    return handle
