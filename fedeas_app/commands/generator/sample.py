"""``fedeas generator sample``: images of every class, to look at."""

import time
import unicodedata
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedeas_app.commands.configuration import ConfigArgument, SetOption, load_settings
from fedeas_app.commands.console import one_sentence, out
from fedeas_app.commands.generator.drawing import OutOption, SeedOption, create, draw_as_client

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LONGEST_NAME = 60  # characters of up to 4 bytes: file systems allow 255 bytes


@one_sentence
def sample(
    target: OutOption,
    config: ConfigArgument = None,
    overrides: SetOption = None,
    per_class: Annotated[int, typer.Option(min=1, help="Images of each class.")] = 10,
    seed: SeedOption = 0,
) -> None:
    """Make images of every class: a PNG each, and one picture of them all."""
    from fedeas_app.files import require_new
    from fedeas_app.generators import open_generator

    settings = load_settings(config, overrides)
    target = require_new(target)
    generator = open_generator(settings)
    names = file_names(generator.class_names or tuple(map(str, range(generator.num_classes))))
    begin = time.perf_counter()
    images, labels = draw_as_client(generator, settings, per_class, seed)
    seconds = time.perf_counter() - begin
    create(target, partial(_write_images, images, labels, names))
    out.print(
        f"{len(labels):,} images in {seconds:.1f} s ({len(labels) / seconds:.1f} images per "
        f"second, loading included) are in {escape(str(target))}; look at grid.png there.",
        soft_wrap=True,
    )


def file_names(class_names: tuple[str, ...]) -> list[str]:
    """Return a different name for each class, safe as the name of a directory.

    Names that would clash, with each other or with ``grid.png``, all get their number in front.
    """
    plain = [_file_name(name) for name in class_names]
    different = {name.casefold() for name in plain} - {"", "grid.png"}
    if len(different) == len(plain):
        return plain
    return [f"{label}-{name}" for label, name in enumerate(plain)]


def _file_name(name: str) -> str:
    normal = unicodedata.normalize("NFC", name)
    safe = "".join(c if c.isalnum() or c in " ._-" else "_" for c in normal)
    return safe[:_LONGEST_NAME].strip(" .")


def _write_images(
    images: "NDArray[np.uint8]", labels: "NDArray[np.int64]", names: list[str], directory: Path
) -> None:
    from fedeas_app.generators.grid import png, write_grid

    for label, name in enumerate(names):
        (directory / name).mkdir()
        for index, image in enumerate(images[labels == label]):
            (directory / name / f"{index}.png").write_bytes(png(image))
    write_grid(images, labels, directory / "grid.png")
