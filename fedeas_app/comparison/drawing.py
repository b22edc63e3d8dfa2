"""The figures of a comparison as files; imports matplotlib, which takes a second."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from fedeas_app.comparison.reading import Comparison
from fedeas_app.errors import first_line
from fedeas_app.figures import Picture, comparison_figures, save_all
from fedeas_app.files import make_directory

FIGURES = "figures"


def draw_figures(comparison: Comparison) -> list[str]:
    """Draw all figures into a fresh directory, so that none of an earlier state is left.

    Returns
    -------
    list of str
        Which figures cannot be drawn, and why: a class name can do that.

    Raises
    ------
    UserError
        The directory cannot be made or written.
    """
    target = comparison.directory / FIGURES
    fresh = comparison.directory / f".{FIGURES}"
    _remove(fresh)
    make_directory(fresh)
    troubles = [*_draw(comparison_figures(comparison), fresh)]
    _remove(target)
    fresh.rename(target)
    return troubles


def _draw(pictures: Iterable[Picture], directory: Path) -> Iterator[str]:
    for picture in pictures:
        try:
            save_all([picture], directory)
        except (TypeError, ValueError) as error:
            yield f"The figure {picture.title!r} cannot be drawn ({first_line(error)})."


def _remove(directory: Path) -> None:
    if directory.is_dir():
        shutil.rmtree(directory)
