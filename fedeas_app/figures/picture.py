"""A figure as a page needs it: with its name, its words, and its drawing for each theme."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from fedeas_app.figures.fonts import use_fonts
from fedeas_app.figures.style import LIGHT, Theme
from fedeas_app.files import make_directory, write_bytes, write_text

_DOTS = 200  # an inch, in PNG files


@dataclass(frozen=True)
class Picture:
    """One figure.

    Attributes
    ----------
    name : str
        Stem of its files; unique in a report.
    title : str
    caption : str
        What is to be seen and how to read it, with the definition.
    alt : str
        The numbers that matter, for those who do not see it.
    paint : callable
        Makes the figure; call :meth:`draw` instead.
    """

    name: str
    title: str
    caption: str
    alt: str
    paint: Callable[[Theme], Figure]

    def draw(self, theme: Theme = LIGHT) -> Figure:
        """Draw it, whatever the user's matplotlib settings are."""
        with _own_settings():
            figure = self.paint(theme)
            use_fonts(figure)
            figure.set_label(f"{self.name}-{theme.name}")
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # else every file made of it would shift it a little
        return figure


@dataclass(frozen=True)
class Missing:
    """A figure that the data do not allow, and why: a sentence."""

    title: str
    reason: str


def to_svg(figure: Figure) -> str:
    """Return a figure as an ``<svg>`` element: the same bits for the same figure.

    Text stays text. Names inside depend on the figure's label, so that several fit into one page.
    """
    target = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with _own_settings({"svg.hashsalt": figure.get_label(), "svg.fonttype": "none"}):
        figure.savefig(target, format="svg", metadata=nothing)
    text = target.getvalue()
    return text[text.index("<svg") :]


def to_png(figure: Figure) -> bytes:
    """Return a figure as the content of a PNG file."""
    target = io.BytesIO()
    with _own_settings():
        figure.savefig(target, format="png", dpi=_DOTS, metadata={"Software": None})
    return target.getvalue()


def save_all(pictures: Sequence[Picture], directory: Path) -> list[Path]:
    """Write each picture's PNG and SVG file in the light theme, atomically.

    Returns
    -------
    list of Path
        The files, in the order of the pictures.

    Raises
    ------
    UserError
        The directory cannot be made or written.
    """
    make_directory(directory)
    return [path for picture in pictures for path in _save(picture, directory)]


def _save(picture: Picture, directory: Path) -> tuple[Path, Path]:
    figure = picture.draw(LIGHT)
    png, svg = (directory / f"{picture.name}.{kind}" for kind in ("png", "svg"))
    write_bytes(png, to_png(figure))
    write_text(svg, to_svg(figure))
    return png, svg


@contextmanager
def _own_settings(settings: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Use matplotlib's defaults and these settings, and put back what was there before.

    A dollar sign in a label or a class name is one, not the beginning of a formula.
    """
    with mpl.rc_context():
        mpl.rcParams.update({**mpl.rcParamsDefault, "text.parse_math": False, **(settings or {})})
        yield
