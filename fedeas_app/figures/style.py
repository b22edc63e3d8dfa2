"""How every figure looks: one palette for each theme, and never colour alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

WIDTH: Final = 5.2  # inches: small enough that 9-point text can be read 360 pixels wide
TEXT_SIZE: Final = 9.0  # points
_CHARACTER = 0.62 * TEXT_SIZE / 72  # inches, a generous mean of the font
_HANDLE = 0.55  # inches that a legend's line and gaps take
_ROW = 0.19  # inches
_PAD = 0.08  # inches around everything


@dataclass(frozen=True)
class Theme:
    """Colours on one background.

    Attributes
    ----------
    name : str
        ``light`` or ``dark``.
    background : str
        Of the figure; a page that shows it may take the same.
    text : str
        Of words and numbers, and of the axes.
    neutral : str
        Of reference lines and of what belongs to no arm.
    grid : str
        Of what only helps the eye.
    palette : tuple of str
        For arms; told apart with any colour vision.
    heat : str
        The name of the colour map for counts; its low end is near the background.
    """

    name: str
    background: str
    text: str
    neutral: str
    grid: str
    palette: tuple[str, ...]
    heat: str


LIGHT: Final = Theme(
    name="light",
    background="#ffffff",
    text="#1f2328",
    neutral="#6b7280",
    grid="#e3e6ea",
    palette=(
        "#023574", "#d77117", "#0b7456", "#c062aa", "#909153", "#4a324d", "#1591f3", "#8a0017",
    ),
    heat="cividis_r",
)  # fmt: skip
DARK: Final = Theme(
    name="dark",
    background="#15181d",
    text="#e6e8eb",
    neutral="#9aa3ae",
    grid="#2f353d",
    palette=(
        "#4fc3ff", "#dd8837", "#009497", "#d1c3db", "#ffce47", "#dcfee1", "#927df8", "#f06065",
    ),
    heat="cividis",
)  # fmt: skip
THEMES: Final = (LIGHT, DARK)

_DASHES: Final[tuple[Any, ...]] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "<", "p", ">", "*")


class Look(NamedTuple):
    """How one arm is drawn in every figure."""

    color: str
    linestyle: Any
    marker: str


def look(theme: Theme, index: int) -> Look:
    """Return the look of the arm at a place of the comparison.

    Dashes shift with every turn through the palette, so that arms of one colour differ too.
    """
    turn, color = divmod(index, len(theme.palette))
    return Look(
        theme.palette[color],
        _DASHES[(index + turn) % len(_DASHES)],
        _MARKERS[index % len(_MARKERS)],
    )


def canvas(
    theme: Theme, height: float, rows: int = 1, columns: int = 1, **keys: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure of a theme and its axes, row by row.

    Parameters
    ----------
    theme : Theme
    height : float
        Inches.
    rows, columns : int
    **keys
        For ``Figure.subplots``.
    """
    figure = Figure(
        figsize=(WIDTH, height),
        layout=ConstrainedLayoutEngine(w_pad=_PAD, h_pad=_PAD),
        facecolor=theme.background,
    )
    axes = list(figure.subplots(rows, columns, squeeze=False, **keys).flat)
    for each in axes:
        _dress(each, theme)
    return figure, axes


def _dress(axes: Axes, theme: Theme) -> None:
    axes.set_facecolor(theme.background)
    axes.grid(color=theme.grid, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", color=theme.neutral, labelcolor=theme.text, labelsize=TEXT_SIZE)
    for name, spine in axes.spines.items():
        spine.set_color(theme.neutral)
        spine.set_visible(name in ("left", "bottom"))
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set(color=theme.text, fontsize=TEXT_SIZE)


def heading(axes: Axes, theme: Theme, text: str) -> None:
    """Write what one of several panels shows above it."""
    axes.set_title(text, loc="left", color=theme.text, fontsize=TEXT_SIZE)


def shared_labels(figure: Figure, theme: Theme, x: str, y: str) -> None:
    """Name the axes that all panels share."""
    for label in (figure.supxlabel(x), figure.supylabel(y)):
        label.set(color=theme.text, fontsize=TEXT_SIZE)


def whole_numbers(axes: Axes) -> None:
    """Put ticks of the x axis at whole numbers only: rounds, clients."""
    locator = MaxNLocator(integer=True, steps=[1, 2, 5, 10], min_n_ticks=1)
    axes.xaxis.set_major_locator(locator)


def plain_logarithm(axis: Axis) -> None:
    """Write the numbers of a logarithmic axis as 0.1, 1, 10, and more of them on a short one."""
    low, high = axis.get_view_interval()
    ticks = MaxNLocator(4) if high < 5 * low else LogLocator(subs=(1, 2, 5))
    axis.set_major_locator(LogLocator() if high > 50 * low else ticks)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def grouped_thousands(axes: Axes) -> None:
    """Write the numbers of the x axis as 12,000."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def legend_columns(labels: Sequence[str], most: int = 4) -> int:
    """Return how many columns of a legend fit into the width of a figure."""
    width = _HANDLE + _CHARACTER * max(map(len, labels), default=0)
    return max(1, min(most, len(labels), int(WIDTH / width)))


def legend_height(labels: Sequence[str]) -> float:
    """Return the inches that the legend of :func:`legend_below` takes."""
    return _ROW * -(-len(labels) // legend_columns(labels)) + 0.1


def legend_below(figure: Figure, theme: Theme, handles: Sequence[Any]) -> None:
    """Explain what is drawn in a legend below all axes, where it covers nothing.

    The labels are those of the handles.
    """
    labels = [str(handle.get_label()) for handle in handles]
    figure.legend(
        handles=list(handles),
        loc="outside lower center",
        ncols=legend_columns(labels),
        frameon=False,
        fontsize=TEXT_SIZE,
        labelcolor=theme.text,
        handlelength=2.6,
        columnspacing=1.2,
        borderaxespad=0.2,
    )


def fitted(text: str, length: int) -> str:
    """Cut a text down in its middle: long names often differ at an end alone."""
    if len(text) <= length:
        return text
    head = length // 2
    return f"{text[:head]}…{text[len(text) - (length - head - 1) :]}"
