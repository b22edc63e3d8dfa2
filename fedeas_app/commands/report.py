"""``fedeas report``: one HTML file that shows a run or a comparison."""

from pathlib import Path
from typing import Annotated

import typer

from fedeas_app.commands.console import one_sentence, out
from fedeas_app.errors import UserError
from fedeas_app.files import cannot_write, require_writable, write_text

_NAME = "report.html"


@one_sentence
def report(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="The directory of a run or of a comparison, which fedeas run and fedeas compare "
            "print at their end.",
        ),
    ],
    out_file: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The file to write; else DIR/report.html."),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write one self-contained HTML file with the figures, tables and settings of a run.

    The same for a comparison, finished or not.
    """
    from fedeas_app.report.page import render, require_record  # matplotlib takes a second

    require_record(directory)
    path = out_file if out_file is not None else directory / _NAME
    require_writable(path)
    _write(path, render(directory))
    out.print(f"Report: {path}", markup=False, soft_wrap=True)
    if show:
        typer.launch(str(path.resolve()))


def _write(path: Path, page: str) -> None:
    try:
        write_text(path, page)
    except OSError as error:
        raise UserError(cannot_write(path.parent, error)) from error
