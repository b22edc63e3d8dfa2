"""The accuracy plot of a run."""

import io
from collections.abc import Sequence
from pathlib import Path

from fedeas_app.files import write_bytes


def plot_accuracy(accuracies: Sequence[float], path: Path) -> None:
    """Draw test accuracy over rounds 1 to R into a PNG file.

    The figure is made without pyplot, so no global state and no display is involved.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(6.4, 4), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    rounds = range(1, len(accuracies) + 1)
    axes.plot(rounds, [100 * value for value in accuracies], marker="o", markersize=3)
    axes.set(xlabel="round", ylabel="test accuracy (%)", ylim=(0, 100))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    target = io.BytesIO()
    FigureCanvasAgg(figure).print_png(target)
    write_bytes(path, target.getvalue())
