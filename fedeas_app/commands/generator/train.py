"""``fedeas generator train``: a class-conditional DDPM from the training set of a dataset."""

import os
import shlex
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import typer
from rich.progress import Progress, TextColumn

from fedeas_app.commands.configuration import ConfigArgument, SetOption, load_settings
from fedeas_app.commands.console import err, one_sentence, out
from fedeas_app.commands.generator.drawing import OutOption, progress_bar
from fedeas_app.commands.generator.federated import train_federatedly
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings

if TYPE_CHECKING:
    from fedeas_app.generators.trainer import Training
    from fedeas_app.generators.training import Cadence

_LINES = 20  # how often a training that nobody watches says where it is
_INTERRUPTED = 130  # exit status: 128 and the number of SIGINT

Preset = Annotated[str, typer.Option(help="Size of the network: tiny, small or cifar.")]
Steps = Annotated[int, typer.Option(min=50, help="Training steps.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Images in a step.")]
LabelDropout = Annotated[
    float, typer.Option(min=0, max=0.9, help="Share of the labels left out, for guidance; 0: none.")
]
Unshuffle = Annotated[
    int, typer.Option(min=1, help="Fold blocks of this many pixels a side: cheaper, coarser.")
]
LearningRate = Annotated[float, typer.Option(min=0, help="Largest step size; 0: the preset's.")]
Precision = Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")]
Processes = Annotated[
    int, typer.Option(min=1, help="Processes that share each batch: one for each GPU.")
]
CheckpointEvery = Annotated[int, typer.Option(min=1, help="Steps between two checkpoints.")]
SamplesEvery = Annotated[int, typer.Option(min=1, help="Steps between two pictures of samples.")]
Federated = Annotated[
    bool,
    typer.Option(
        "--federated", help="Simulated clients train it together, as the keys generator-… say."
    ),
]


@one_sentence
def train(  # noqa: PLR0913, PLR0917 - an argument for each option
    target: OutOption,
    config: ConfigArgument = None,
    overrides: SetOption = None,
    preset: Preset = "tiny",
    steps: Steps = 3000,
    batch_size: BatchSize = 128,
    label_dropout: LabelDropout = 0.1,
    unshuffle: Unshuffle = 1,
    learning_rate: LearningRate = 0.0,
    precision: Precision = "auto",
    processes: Processes = 1,
    checkpoint_every: CheckpointEvery = 500,
    samples_every: SamplesEvery = 1000,
    federated: Federated = False,
) -> None:
    """Train a class-conditional DDPM on the training set of a dataset.

    The same command again continues an interrupted training. Until it is finished, its last
    checkpoint and pictures of what it draws lie in DIR.training.
    """
    if federated:
        train_federatedly(config, overrides, target, click.get_current_context())
        _say_where(target)
        return
    from fedeas_app.generators.trainer import Training
    from fedeas_app.generators.training import Cadence

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
    _run(settings, training, target, Cadence(checkpoint_every, samples_every), processes)


def _run(
    settings: Settings, training: "Training", target: Path, cadence: "Cadence", processes: int
) -> None:
    """Train in so many processes, and say how it ended."""
    from fedeas_app.files import require_new
    from fedeas_app.generators.processes import share

    _require_any_gpu(settings.device, processes)
    target = require_new(target)
    try:
        share(partial(_train, settings, training, target, cadence), processes)
    except KeyboardInterrupt:
        err.print(_interrupted(target, training.steps), style="yellow", soft_wrap=True)
        raise typer.Exit(_INTERRUPTED) from None
    _say_where(target)


def _say_where(target: Path) -> None:
    option = shlex.quote(f"generator={target.expanduser().absolute()}")
    out.print(
        f"The generator is in {target}; judge it with fedeas generator evaluate, use it with "
        f"--set {option}.",
        markup=False,
        soft_wrap=True,
    )


def _require_any_gpu(device: str, processes: int) -> None:
    if processes > 1 and ":" in device:
        raise UserError(
            f"device is {device!r}, which is one GPU, but --processes is {processes}, one for each "
            'GPU; set device = "cuda", or leave --processes out.'
        )


def _interrupted(target: Path, steps: int) -> str:
    from fedeas_app.generators.checkpoint import step_of
    from fedeas_app.generators.workshop import workshop_of

    step = step_of(workshop_of(target))
    if not step:
        return "Interrupted before the first checkpoint; the same command begins anew."
    return (
        f"Interrupted; the last checkpoint is at step {step:,} of {steps:,}, and the same command "
        "continues from there."
    )


def _train(settings: Settings, training: "Training", target: Path, cadence: "Cadence") -> None:
    from fedeas_app.data import load_split
    from fedeas_app.generators.card import Origin
    from fedeas_app.generators.training import train

    split = load_split(settings, "train")
    # Of several processes only the first reports: two bars would write over each other.
    watched = err.is_terminal and os.environ.get("RANK", "0") == "0"
    with progress_bar(TextColumn("{task.fields[state]}"), disable=not watched) as progress:
        report = _Report(progress, training.steps)
        train(
            split,
            training,
            target,
            cadence=cadence,
            origin=Origin.of(settings),
            observe=report,
            resumed=report.resumed,
        )


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
