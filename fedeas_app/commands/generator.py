"""``fedeas generator``: make the generators that clients use, and look at what they make."""

import json
import time
import unicodedata
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fedeas_app.commands.configuration import ConfigArgument, SetOption, load_settings
from fedeas_app.commands.console import err, one_sentence, out
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fedeas_app.data import Split
    from fedeas_app.generators import Generator
    from fedeas_app.generators.judging import Verdict

    Made = tuple[NDArray[np.uint8], NDArray[np.int64]]

_LONGEST_NAME = 60  # characters of up to 4 bytes: file systems allow 255 bytes

SeedOption = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the images.")]

app = typer.Typer(
    help="Make the generators that clients use, and judge them.", no_args_is_help=True
)


@app.callback()
def main() -> None:
    """Make the generators that clients use, and judge them."""


@app.command("train")
@one_sentence
def train(
    target: Annotated[Path, typer.Option("--out", help="A directory that does not exist yet.")],
    config: ConfigArgument = None,
    overrides: SetOption = None,
    preset: Annotated[
        str, typer.Option(help="Size of the network: tiny, small or cifar.")
    ] = "tiny",
    steps: Annotated[int, typer.Option(min=50, help="Training steps.")] = 3000,
    batch_size: Annotated[int, typer.Option(min=1, help="Images in a step.")] = 128,
) -> None:
    """Train a class-conditional DDPM on the training set of a dataset."""
    from fedeas_app.data import load_split
    from fedeas_app.generators.training import Training, require_new, train

    settings = load_settings(config, overrides)
    training = Training(preset, steps, batch_size, settings.seed, settings.device)
    require_new(target)
    split = load_split(settings, "train")
    with _progress(TextColumn("loss {task.fields[loss]:.4f}")) as progress:
        bar = progress.add_task("training", total=steps, loss=float("nan"))

        def show(step: int, loss: float) -> None:
            progress.update(bar, completed=step, loss=loss)

        train(split, training, target, show)
    out.print(f"The generator is in {target}; use it with --set generator={target.absolute()}.")


@app.command("sample")
@one_sentence
def sample(
    target: Annotated[Path, typer.Option("--out", help="A directory that does not exist yet.")],
    config: ConfigArgument = None,
    overrides: SetOption = None,
    per_class: Annotated[int, typer.Option(min=1, help="Images of each class.")] = 10,
    seed: SeedOption = 0,
) -> None:
    """Make images of every class: a PNG each, and one picture of them all."""
    from fedeas_app.generators import open_generator
    from fedeas_app.generators.training import require_new

    settings = load_settings(config, overrides)
    require_new(target)
    generator = open_generator(settings)
    names = file_names(generator.class_names or tuple(map(str, range(generator.num_classes))))
    begin = time.perf_counter()
    images, labels = _draw(generator, settings, per_class, seed)
    seconds = time.perf_counter() - begin
    _create(target, partial(_write_images, images, labels, names))
    out.print(
        f"{len(labels):,} images in {seconds:.1f} s ({len(labels) / seconds:.1f} images per "
        f"second, loading included) are in {escape(str(target))}; look at grid.png there.",
        soft_wrap=True,
    )


@app.command("evaluate")
@one_sentence
def evaluate(
    config: ConfigArgument = None,
    overrides: SetOption = None,
    per_class: Annotated[int, typer.Option(min=2, help="Images of each class.")] = 100,
    seed: SeedOption = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    target: Annotated[
        Path | None,
        typer.Option("--out", help="Keep grid.png and report.json in this new directory."),
    ] = None,
) -> None:
    """Judge a generator by a classifier trained on the real images of the dataset."""
    from fedeas_app.generators.training import require_new

    settings = load_settings(config, overrides)
    if target is not None:
        require_new(target)
    verdict, made = _judge(settings, per_class, seed)
    report = _report(settings, per_class, seed, verdict)
    if target is not None:
        _create(target, partial(_write_report, report, made))
    if as_json:
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _show(verdict)
    _warn(verdict)


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


def _draw(generator: "Generator", settings: Settings, per_class: int, seed: int) -> "Made":
    """Make images as a client would: with as many threads, under a progress bar."""
    from fedeas_app.devices import repeatable
    from fedeas_app.generators.grid import draw

    with _progress() as progress, repeatable(settings.threads):
        bar = progress.add_task("generating", total=generator.num_classes * per_class)
        return draw(
            generator, per_class, seed, lambda batch, images: progress.advance(bar, len(images))
        )


def _judge(settings: Settings, per_class: int, seed: int) -> "tuple[Verdict, Made]":
    from fedeas_app.data import load_split
    from fedeas_app.generators import open_generator
    from fedeas_app.generators.judging import judge

    generator = open_generator(settings)
    train, test = load_split(settings, "train"), load_split(settings, "test")
    _require_fit(generator, train)
    made = _draw(generator, settings, per_class, seed)
    with err.status("training a classifier on the real images and judging"):
        return judge(*made, train, test, settings), made


def _require_fit(generator: "Generator", train: "Split") -> None:
    from fedeas_app.generators import require_fit

    height, width, channels = train.images.shape[1:]
    require_fit(generator, train.class_names, (height, width, channels))


def _report(settings: Settings, per_class: int, seed: int, verdict: "Verdict") -> dict[str, Any]:
    flat = settings.to_flat()
    keys = ("dataset", "generator", "sampler", "sampler-steps")
    asked = {key: flat[key] for key in keys}
    return asked | {"per-class": per_class, "seed": seed} | verdict.to_dict()


def _show(verdict: "Verdict") -> None:
    out.print(_recognised(verdict))
    out.print(_distances(verdict))


def _recognised(verdict: "Verdict") -> Table:
    table = Table("class", "recognised", box=None)
    table.columns[1].justify = "right"
    for name, share in verdict.recognised_by_class.items():
        table.add_row(escape(name), f"{share:.1%}")
    table.add_row("all", f"{verdict.recognised:.1%}", style="bold")
    table.add_row("real test images", f"{verdict.accuracy:.1%}")
    return table


def _distances(verdict: "Verdict") -> Table:
    table = Table("", "synthetic", "real test", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    rows = {
        f"Fréchet distance of {verdict.frechet_images:,} to the training set": (
            verdict.frechet_train,
            verdict.frechet_real,
        ),
        f"Fréchet distance of {verdict.frechet_images:,} to the test set": (
            verdict.frechet_test,
            None,
        ),
        "median distance to the nearest training image": (
            verdict.nearest_synthetic,
            verdict.nearest_test,
        ),
    }
    for name, values in rows.items():
        table.add_row(name, *("" if value is None else f"{value:.3f}" for value in values))
    return table


def _warn(verdict: "Verdict") -> None:
    """Say aloud, on stderr and so beside JSON too, that a generator is of no use."""
    from fedeas_app.generators.judging import LEAST_RECOGNISED

    if verdict.recognised < LEAST_RECOGNISED:
        err.print(
            f"Warning: only {verdict.recognised:.1%} of the synthetic images are recognised as "
            f"their label ({verdict.accuracy:.1%} of the real test images are); use another "
            "sampler, more steps or another generator.",
            style="yellow",
            soft_wrap=True,
        )


def _create(target: Path, fill: Callable[[Path], None]) -> None:
    from fedeas_app.files import cannot_write, create_directory

    try:
        create_directory(target, fill)
    except OSError as error:
        raise UserError(cannot_write(target, error)) from error


def _write_images(
    images: "NDArray[np.uint8]", labels: "NDArray[np.int64]", names: list[str], directory: Path
) -> None:
    from fedeas_app.generators.grid import png, write_grid

    for label, name in enumerate(names):
        (directory / name).mkdir()
        for index, image in enumerate(images[labels == label]):
            (directory / name / f"{index}.png").write_bytes(png(image))
    write_grid(images, labels, directory / "grid.png")


def _write_report(report: dict[str, Any], made: "Made", directory: Path) -> None:
    from fedeas_app.files import write_text
    from fedeas_app.generators.grid import write_grid

    write_text(directory / "report.json", json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    write_grid(*made, directory / "grid.png")


def _progress(*more: TextColumn) -> Progress:
    """Return a progress bar; on stderr, so that stdout holds results alone."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *more,
        TimeRemainingColumn(),
        console=err,
    )
