"""``fedeas generator train``: a class-conditional DDPM from the training set of a dataset."""

import os
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import Progress, TextColumn

from fedeas_app.commands.configuration import ConfigArgument, SetOption, load_settings
from fedeas_app.commands.console import err, one_sentence, out
from fedeas_app.commands.generator.drawing import progress_bar
from fedeas_app.settings import Settings

if TYPE_CHECKING:
    from fedeas_app.generators.trainer import Training
    from fedeas_app.generators.training import Cadence

_LINES = 20  # how often a training that nobody watches says where it is


@one_sentence
def train(  # noqa: PLR0913, PLR0917 - an argument for each option
    target: Annotated[Path, typer.Option("--out", help="A directory that does not exist yet.")],
    config: ConfigArgument = None,
    overrides: SetOption = None,
    preset: Annotated[
        str, typer.Option(help="Size of the network: tiny, small or cifar.")
    ] = "tiny",
    steps: Annotated[int, typer.Option(min=50, help="Training steps.")] = 3000,
    batch_size: Annotated[int, typer.Option(min=1, help="Images in a step.")] = 128,
    label_dropout: Annotated[
        float,
        typer.Option(min=0, max=0.9, help="Share of the labels left out, for guidance; 0: none."),
    ] = 0.1,
    unshuffle: Annotated[
        int,
        typer.Option(min=1, help="Fold blocks of this many pixels a side: cheaper, coarser."),
    ] = 1,
    learning_rate: Annotated[
        float, typer.Option(min=0, help="Largest step size; 0: the preset's.")
    ] = 0.0,
    precision: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    processes: Annotated[
        int, typer.Option(min=1, help="Processes that share each batch: one for each GPU.")
    ] = 1,
    checkpoint_every: Annotated[
        int, typer.Option(min=1, help="Steps between two checkpoints.")
    ] = 500,
    samples_every: Annotated[
        int, typer.Option(min=1, help="Steps between two pictures of samples.")
    ] = 1000,
) -> None:
    """Train a class-conditional DDPM on the training set of a dataset.

    The same command again continues an interrupted training. Until it is finished, its last
    checkpoint and pictures of what it draws lie in DIR.training.
    """
    from fedeas_app.generators.processes import share
    from fedeas_app.generators.trainer import Training
    from fedeas_app.generators.training import Cadence, require_new

    settings = load_settings(config, overrides)
    training = Training(
        preset=preset,
        steps=steps,
        batch_size=batch_size,
        seed=settings.seed,
        device=settings.device,
        label_dropout=label_dropout,
        unshuffle=unshuffle,
        learning_rate=learning_rate,
        precision=precision,
    )
    require_new(target)
    share(
        partial(_train, settings, training, target, Cadence(checkpoint_every, samples_every)),
        processes,
    )
    out.print(
        f"The generator is in {escape(str(target))}; judge it with fedeas generator evaluate, use "
        f"it with --set generator={escape(str(target.absolute()))}.",
        soft_wrap=True,
    )


def _train(settings: Settings, training: "Training", target: Path, cadence: "Cadence") -> None:
    from fedeas_app.data import load_split
    from fedeas_app.generators.training import train

    split = load_split(settings, "train")
    # Of several processes only the first reports: two bars would write over each other.
    watched = err.is_terminal and os.environ.get("RANK", "0") == "0"
    with progress_bar(TextColumn("{task.fields[state]}"), disable=not watched) as progress:
        report = _Report(progress, training.steps)
        train(split, training, target, cadence=cadence, observe=report, resumed=report.resumed)


class _Report:
    """How far the training is: a live bar for a person, now and then a line for a log."""

    def __init__(self, progress: Progress, steps: int) -> None:
        self._progress = progress
        self._steps = steps
        self._bar = progress.add_task("training", total=steps, state="")
        self._next_line = 0.0

    def resumed(self, step: int) -> None:
        """Say that the work so far was not in vain."""
        err.print(f"Continuing after step {step:,} of {self._steps:,}.")
        self._progress.update(self._bar, completed=step)

    def __call__(self, step: int, loss: float, images_per_second: float) -> None:
        """Show the steps done, the loss and the speed."""
        state = f"loss {loss:.4f} · {images_per_second:,.0f} images/s"
        self._progress.update(self._bar, completed=step, state=state)
        if not err.is_terminal and (step >= self._next_line or step == self._steps):
            self._next_line = step + self._steps / _LINES
            left = self._progress.tasks[self._bar].time_remaining
            waiting = "" if left is None else f" · {timedelta(seconds=round(left))} left"
            err.print(f"step {step:,} of {self._steps:,} · {state}{waiting}", soft_wrap=True)
