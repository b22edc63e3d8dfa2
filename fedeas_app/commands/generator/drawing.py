"""What ``sample`` and ``evaluate`` share: images under a progress bar, and a new directory."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedeas_app.commands.console import err
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fedeas_app.generators import Generator

    Made = tuple[NDArray[np.uint8], NDArray[np.int64]]

_OUT = typer.Option("--out", metavar="DIR", help="A directory that does not exist yet.")

OutOption = Annotated[Path, _OUT]
OptionalOutOption = Annotated[Path | None, _OUT]
SeedOption = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the images.")]


def draw_as_client(generator: "Generator", settings: Settings, per_class: int, seed: int) -> "Made":
    """Make images as a client would: with as many threads, under a progress bar."""
    from fedeas_app.devices import repeatable
    from fedeas_app.generators.grid import draw

    with progress_bar() as progress, repeatable(settings.threads):
        bar = progress.add_task("generating", total=generator.num_classes * per_class)
        return draw(
            generator, per_class, seed, lambda batch, images: progress.advance(bar, len(images))
        )


def create(target: Path, fill: Callable[[Path], None]) -> None:
    """Make a directory whole or not at all, or say in one sentence why not."""
    from fedeas_app.files import cannot_write, create_directory

    try:
        create_directory(target, fill)
    except OSError as error:
        raise UserError(cannot_write(target, error)) from error


def progress_bar(*more: TextColumn, disable: bool = False) -> Progress:
    """Return a progress bar; on stderr, so that stdout holds results alone."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *more,
        TimeRemainingColumn(),
        console=err,
        disable=disable,
    )
