"""``fedeas report``: one HTML file that shows a run or a comparison."""

from pathlib import Path
from typing import Annotated

import typer

from fedeas_app.commands.console import one_sentence, out
from fedeas_app.errors import UserError
from fedeas_app.files import cannot_write, write_text

_NAME = "report.html"


@one_sentence
def report(
    directory: Annotated[Path, typer.Argument(help="Of a run or of a comparison.")],
    out_file: Annotated[
        Path | None, typer.Option("--out", help="The file to write; else DIR/report.html.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write one self-contained HTML file with the figures, tables and settings of a run."""
    from fedeas_app.report.page import render  # matplotlib takes a second

    page = render(directory)
    path = out_file if out_file is not None else directory / _NAME
    _write(path, page)
    out.print(f"Report: {path}", markup=False, soft_wrap=True)
    if show:
        typer.launch(str(path.resolve()))


def _write(path: Path, page: str) -> None:
    if path.is_dir():
        raise UserError(f"--out is {path}, which is a directory; name a file in it.")
    try:
        write_text(path, page)
    except OSError as error:
        raise UserError(cannot_write(path.parent, error)) from error
