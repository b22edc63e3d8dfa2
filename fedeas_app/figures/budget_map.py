"""Which images every client has, and which it makes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from fedeas_app.comparison.reading import Comparison
from fedeas_app.figures.fonts import can_draw
from fedeas_app.figures.partitions import partition_names, partitions
from fedeas_app.figures.picture import Missing, Picture
from fedeas_app.figures.style import (
    TEXT_SIZE,
    Theme,
    canvas,
    fitted,
    heading,
    plain_logarithm,
    shared_labels,
)
from fedeas_app.runs.reading import ClassCounts, Run
from fedeas_app.wording import plural

TITLE = "Images by client and class"
_CAPTION = (
    "Every row is a client, every column a class; the darker on light ground (brighter on dark "
    "ground), the more images, on a logarithmic scale. Cells without images are empty. {panels}"
)
_PANELS = "Left the real images, right the synthetic ones that the policy adds."
_MANY_PANELS = (
    "First the real images, then the synthetic ones that each policy adds, for seed {seed}."
)
_NO_COUNTS = (
    "How many images of each class every client has is only known for simulations that fedeas "
    "started."
)
_NAMED_CLASSES = 12  # up to as many the columns carry their names, else numbers
_BY_NUMBER = "class, by its number where no installed font has its letters"


class Panel(NamedTuple):
    """A table of images with its heading, shape (K, C)."""

    heading: str
    images: NDArray[np.int64]


def of_run(run: Run) -> Picture | Missing:
    """Return the run's real and synthetic images."""
    if run.counts is None:
        return Missing(TITLE, _NO_COUNTS)
    panels = [_panel("real", run.counts.real), _panel("synthetic", run.counts.synthetic)]
    return _picture(panels, run.counts, _PANELS)


def of_comparison(comparison: Comparison) -> Picture | Missing:
    """Return the real images of one seed, and what each policy adds to them.

    With several partitions of that seed it is the first one, named in the title.
    """
    groups = partitions(comparison)
    if not groups:
        return Missing(TITLE, _NO_COUNTS)
    runs, name = groups[0], partition_names(groups)[0]
    first = runs[0].counts
    assert first is not None  # noqa: S101 - partitions are made of counts
    panels = [_panel("real", first.real), *_policies(runs)]
    picture = _picture(panels, first, _MANY_PANELS.format(seed=runs[0].settings.seed))
    return replace(picture, title=titled(name)) if len(groups) > 1 else picture


def titled(partition: str) -> str:
    """Return the title of the map of one of several partitions."""
    return f"{TITLE}: {partition}"


def _policies(runs: Sequence[Run]) -> list[Panel]:
    """Return one panel for each distinct way to add to the same real images."""
    found: dict[bytes, Panel] = {}
    for run in runs:
        if run.counts is not None:
            panel = _panel(_policy(run), run.counts.synthetic)
            found.setdefault(run.counts.synthetic.tobytes(), panel)
    return [panel for panel in found.values() if panel.images.any()]


def _policy(run: Run) -> str:
    policy, beta = run.settings.policy, run.settings.beta
    return policy if policy == "full" else f"{policy} β={beta}".removesuffix(".0")


def _panel(heading: str, images: NDArray[np.int64]) -> Panel:
    return Panel(f"{heading} ({images.sum():,})", images)


def _picture(panels: Sequence[Panel], counts: ClassCounts, words: str) -> Picture:
    clients, classes = counts.real.shape
    held = np.count_nonzero(counts.real, axis=1)
    alt = (
        f"{plural(clients, 'client')} and {plural(classes, 'class', 'classes')}; a client holds "
        f"{held.min()} to {held.max()} of "
        f"them. Images: {', '.join(panel.heading for panel in panels)}."
    )
    return Picture(
        "budget-map",
        TITLE,
        _CAPTION.format(panels=words),
        alt,
        lambda theme: _draw(theme, panels, counts.classes),
    )


def _draw(theme: Theme, panels: Sequence[Panel], classes: Sequence[str]) -> Figure:
    rows = -(-len(panels) // 2)
    height = min(4.5, max(1.6, 0.14 * len(panels[0].images)))
    figure, axes = canvas(theme, 1.3 + rows * (height + 0.3), rows, 2, sharex=True, sharey=True)
    norm = LogNorm(1, max(2, *(int(panel.images.max()) for panel in panels)))
    images = [_draw_panel(*pair, theme, norm) for pair in zip(axes, panels, strict=False)]
    for empty in axes[len(panels) :]:
        empty.set_visible(False)
    for each in axes[len(panels) - 2 : len(panels)]:
        _name_classes(each, classes)
    shared_labels(figure, theme, _class_label(classes), "client")
    _color_bar(figure, axes, images[0], theme)
    return figure


def _draw_panel(axes: Axes, panel: Panel, theme: Theme, norm: LogNorm) -> Any:
    axes.grid(visible=False)
    heading(axes, theme, panel.heading)
    axes.spines[:].set_visible(True)  # where the last cells are empty, the end would be unclear
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    shown = np.ma.masked_equal(panel.images, 0)
    return axes.imshow(
        shown, cmap=colormaps[theme.heat], norm=norm, aspect="auto", interpolation="none"
    )


def _class_label(classes: Sequence[str]) -> str:
    named = len(classes) <= _NAMED_CLASSES
    return _BY_NUMBER if named and not all(map(can_draw, classes)) else "class"


def _name_classes(axes: Axes, classes: Sequence[str]) -> None:
    if len(classes) <= _NAMED_CLASSES:
        names = [fitted(c, 14) if can_draw(c) else str(n) for n, c in enumerate(classes)]
        axes.set_xticks(range(len(classes)), names, rotation=90)
    axes.tick_params(labelbottom=True)


def _color_bar(figure: Figure, axes: Sequence[Axes], image: Any, theme: Theme) -> None:
    bar = figure.colorbar(image, ax=list(axes), aspect=40, pad=0.02)
    bar.set_label("images", color=theme.text, fontsize=TEXT_SIZE)
    bar.ax.tick_params(which="both", color=theme.neutral, labelcolor=theme.text)
    bar.ax.tick_params(labelsize=TEXT_SIZE)
    plain_logarithm(bar.ax.yaxis)
    bar.outline.set_edgecolor(theme.neutral)
