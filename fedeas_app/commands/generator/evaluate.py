"""``fedeas generator evaluate``: is a generator worth training on."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from fedeas_app.commands.configuration import ConfigArgument, SetOption, load_settings
from fedeas_app.commands.console import err, one_sentence, out
from fedeas_app.commands.generator.drawing import (
    OptionalOutOption,
    SeedOption,
    create,
    draw_as_client,
)
from fedeas_app.settings import Settings

if TYPE_CHECKING:
    from fedeas_app.commands.generator.drawing import Made
    from fedeas_app.generators.judging import Verdict


@one_sentence
def evaluate(
    config: ConfigArgument = None,
    overrides: SetOption = None,
    per_class: Annotated[int, typer.Option(min=2, help="Images of each class.")] = 100,
    seed: SeedOption = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    target: OptionalOutOption = None,
) -> None:
    """Judge a generator by a classifier trained on the real images of the dataset.

    With --out, the report and a picture of the images are kept in DIR.
    """
    from fedeas_app.files import require_new

    settings = load_settings(config, overrides)
    if target is not None:
        target = require_new(target)
    verdict, made = _judge(settings, per_class, seed)
    report = _report(settings, per_class, seed, verdict)
    if target is not None:
        create(target, partial(_write_report, report, made))
    if as_json:
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _show(verdict)
    _warn(verdict)


def _judge(settings: Settings, per_class: int, seed: int) -> "tuple[Verdict, Made]":
    from fedeas_app.data import load_split
    from fedeas_app.generators import open_generator, require_fit
    from fedeas_app.generators.judging import judge

    generator = open_generator(settings)
    train, test = load_split(settings, "train"), load_split(settings, "test")
    require_fit(generator, train.class_names, train.image_shape)
    made = draw_as_client(generator, settings, per_class, seed)
    with err.status("training a classifier on the real images and judging"):
        return judge(*made, train, test, settings), made


def _report(settings: Settings, per_class: int, seed: int, verdict: "Verdict") -> dict[str, Any]:
    flat = settings.to_flat()
    keys = ("dataset", "generator", "sampler", "sampler-steps", "guidance-scale")
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
    """Say aloud, on stderr and so beside JSON too, that a generator teaches wrong labels."""
    from fedeas_app.generators.judging import LEAST_OF_REAL, LEAST_RECOGNISED

    shares = (
        f"{verdict.recognised:.1%} of the synthetic images are recognised as their label "
        f"({verdict.accuracy:.1%} of the real test images are)"
    )
    if verdict.recognised < LEAST_RECOGNISED:
        text = f"only {shares}; use another sampler, more steps or another generator."
    elif verdict.recognised < LEAST_OF_REAL * verdict.accuracy:
        text = (
            f"{shares}: the rest may teach wrong labels; see which classes are meant, and try more "
            "sampler-steps, a guidance-scale above 1, or a generator that was trained for longer."
        )
    else:
        return
    err.print(f"Warning: {text}", style="yellow", soft_wrap=True)


def _write_report(report: dict[str, Any], made: "Made", directory: Path) -> None:
    from fedeas_app.files import write_text
    from fedeas_app.generators.grid import write_grid

    write_text(directory / "report.json", json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    write_grid(*made, directory / "grid.png")
