"""How much of the imbalance few clients hold."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedeas_app.comparison.reading import Arm, Comparison
from fedeas_app.figures.arms import FloatArray
from fedeas_app.figures.picture import Missing, Picture
from fedeas_app.figures.skew import cumulative_shares
from fedeas_app.figures.style import Theme, canvas, legend_below, legend_height, look
from fedeas_app.runs.reading import Run
from fedeas_app.wording import plural

_TITLE = "Concentration of the imbalance"
_DEFINITION = (
    "Client k holds (M_k / M)(1 − H̃_k) of the imbalance score I, with M_k its images, M all images "
    "and H̃_k the entropy of its labels over ln C. Clients are put in order, those that hold most "
    "first; the height is the share that they hold together. The higher above the diagonal, the "
    "fewer clients need synthetic images."
)
_AFTER = (
    " The second line is what is left with synthetic images, as a share of what there was before."
)
# The keys that decide which client holds which images.
SHAPING = frozenset({
    "dataset", "dataset-revision", "dataset-subset", "train-samples", "num-clients",
    "partitioner", "alpha", "classes-per-client", "min-partition-size", "noisy-fraction",
    "noise-rate", "rare-fraction", "rare-cap",
})  # fmt: skip
_NOTHING = "No client's classes are out of balance."


class Curve(NamedTuple):
    """What the first clients hold together, shape (K + 1,)."""

    label: str
    shares: FloatArray


def of_run(run: Run) -> Picture | Missing:
    """Return the run's imbalance before, and what synthesis leaves of it."""
    before = _held(run, "before")
    if not before.sum() > 0:
        return Missing(_TITLE, _NOTHING if run.plan else "The run has no plan yet.")
    curves = [Curve("real images", cumulative_shares(before))]
    if run.synthetic:
        left = cumulative_shares(_held(run, "after"), float(before.sum()))
        curves.append(Curve("real and synthetic", left))
    return _picture(curves, _DEFINITION + (_AFTER if run.synthetic else ""))


def of_comparison(comparison: Comparison) -> Picture | Missing:
    """Return the imbalance of the real images, by what shapes the partition: α, say."""
    groups: dict[str, dict[str, FloatArray]] = {}
    for arm in comparison.arms:
        for run in arm.runs:
            held = _held(run, "before")
            if held.sum() > 0:
                groups.setdefault(_shape(arm), {})[_partition(run)] = cumulative_shares(held)
    if not groups:
        return Missing(_TITLE, _NOTHING)
    curves = [Curve(label, _mean(shares)) for label, shares in groups.items()]
    return _picture(curves, f"{_DEFINITION} Lines are means over the partitions of all seeds.")


def _held(run: Run, when: str) -> FloatArray:
    """Return (M_k / M)(1 - H~_k) of each client, before or after synthesis, shape (K,)."""
    clients = run.plan.get("clients", [])
    sizes = [_size(client, when) for client in clients]
    skews = [client[f"imbalance-{when}"] for client in clients]
    return np.array(sizes, np.float64) * np.array(skews, np.float64) / max(1, sum(sizes))


def _size(client: dict[str, Any], when: str) -> int:
    made = client["synthetic"] if when == "after" else 0
    return int(client["num-examples"] + made)


def _partition(run: Run) -> str:
    return str(run.manifest.get("digests", {}).get("partition", run.settings.seed))


def _shape(arm: Arm) -> str:
    words = [f"{key}={value}" for key, value in arm.values.items() if key in SHAPING]
    return ", ".join(words) or "real images"


def _mean(shares: Mapping[str, FloatArray]) -> FloatArray:
    mean: FloatArray = np.mean(list(shares.values()), axis=0)
    return mean


def _picture(curves: Sequence[Curve], caption: str) -> Picture:
    alt = " ".join(map(_words, curves))
    return Picture("concentration", _TITLE, caption, alt, lambda theme: _draw(theme, curves))


def _words(curve: Curve) -> str:
    clients = len(curve.shares) - 1
    few = max(1, round(clients / 4))
    return (
        f"{curve.label}: {curve.shares[few]:.0%} of the imbalance is with the {few} of "
        f"{plural(clients, 'client')} that {'hold' if few > 1 else 'holds'} most, "
        f"{curve.shares[-1]:.0%} with all."
    )


def _draw(theme: Theme, curves: Sequence[Curve]) -> Figure:
    labels = [curve.label for curve in curves] + ["equal parts"]
    figure, (axes,) = canvas(theme, 3.3 + legend_height(labels))
    handles = [_draw_curve(axes, theme, *pair) for pair in enumerate(curves)]
    (diagonal,) = axes.plot(
        [0, 1], [0, 1], color=theme.neutral, linestyle="--", linewidth=1.2, label="equal parts"
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0))
    axes.set(xlabel="clients, those that hold most first", ylabel="share of the imbalance")
    axes.set(xlim=(0, 1.01), ylim=(0, 1.03))
    legend_below(figure, theme, [*handles, diagonal])
    return figure


def _draw_curve(axes: Axes, theme: Theme, index: int, curve: Curve) -> Any:
    style = look(theme, index)
    share_of_clients = np.linspace(0, 1, len(curve.shares))
    (handle,) = axes.plot(
        share_of_clients, curve.shares, color=style.color, linestyle=style.linestyle,
        marker=style.marker, markersize=4, markevery=max(1, len(curve.shares) // 25),
        linewidth=1.7, label=curve.label,
    )  # fmt: skip
    return handle
