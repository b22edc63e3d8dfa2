"""``fedeas generator``: make the generators that clients use."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedeas_app.commands.configuration import ConfigArgument, SetOption, load_settings
from fedeas_app.commands.console import one_sentence, out

app = typer.Typer(help="Make the generators that clients use.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """Make the generators that clients use."""


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
    with _progress() as progress:
        bar = progress.add_task("training", total=steps, loss=float("nan"))

        def show(step: int, loss: float) -> None:
            progress.update(bar, completed=step, loss=loss)

        train(split, training, target, show)
    out.print(f"The generator is in {target}; use it with --set generator={target.absolute()}.")


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeRemainingColumn(),
        console=out,
    )
