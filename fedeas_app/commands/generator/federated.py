"""``fedeas generator train --federated``: simulated clients train a generator together."""

import shutil
from pathlib import Path
from typing import Final

import click
import typer
from click.core import ParameterSource

from fedeas_app.commands.configuration import load_settings
from fedeas_app.commands.console import err
from fedeas_app.commands.execution import execute, foresee
from fedeas_app.commands.generator.drawing import progress_bar
from fedeas_app.commands.launcher import interruptible
from fedeas_app.errors import UserError
from fedeas_app.runs.following import Following
from fedeas_app.settings import FEDERATED, Settings

_INTERRUPTED = 130  # exit status: 128 and the number of SIGINT
_RUN: Final = "run"
# Options of training on pooled images that are keys of the configuration here, and those that have
# no meaning.
_KEYS: Final = {
    "preset": "generator-preset",
    "batch_size": "generator-batch-size",
    "label_dropout": "generator-label-dropout",
    "unshuffle": "generator-unshuffle",
    "learning_rate": "generator-learning-rate",
}
_POOLED: Final = {
    "steps": "generator-rounds and generator-epochs say how long",
    "precision": "a client trains in what its device is fast at",
    "processes": "the clients share the work",
    "checkpoint_every": "checkpoint-every says how many rounds lie between two",
    "samples_every": "generator-samples-every says how many rounds lie between two",
}


def train_federatedly(
    config: Path | None, overrides: list[str] | None, target: Path, context: click.Context
) -> None:
    """Simulate the generator's rounds alone, and put the generator where the user wants it.

    What belongs to the unfinished training lies in ``TARGET.training``, as for pooled images; the
    same command again goes on with it.

    Raises
    ------
    UserError
        An option is for pooled images, the target exists, or the run failed.
    """
    from fedeas_app.files import make_directory, require_new
    from fedeas_app.generators.training import workshop_of

    target = require_new(target).absolute()
    place = make_directory(workshop_of(target))
    resume = (place / _RUN / "config.toml").is_file()
    run = {"output-dir": str(place), "run-name": _RUN, "resume": resume}
    settings = load_settings(config, [*(overrides or []), *_as_overrides(context)])
    settings = Settings.parse(
        settings.to_flat() | run | {"generator": FEDERATED, "generator-only": True}
    )
    _run(settings)
    (place / _RUN / "generator").rename(target)
    shutil.rmtree(place)


def _run(settings: Settings) -> None:
    with progress_bar(disable=not err.is_terminal) as progress:
        bar = progress.add_task("training", total=settings.generator_rounds)
        run: list[Following] = []

        def observe(directory: Path) -> None:
            run[:] = run or [Following(directory)]
            run[0].look()
            progress.update(bar, completed=run[0].generator_rounds)

        try:
            with interruptible():
                execute(settings, foresee(settings), observe)
        except KeyboardInterrupt:
            err.print("Interrupted; the same command goes on.", style="yellow")
            raise typer.Exit(_INTERRUPTED) from None


def _as_overrides(context: click.Context) -> list[str]:
    """Return the options that were given as keys of the configuration."""
    given = [
        name
        for name in context.params
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    for name in given:
        if name in _POOLED:
            option = name.replace("_", "-")
            raise UserError(f"--{option} is for pooled images; with --federated {_POOLED[name]}.")
    return [f"{_KEYS[name]}={context.params[name]}" for name in given if name in _KEYS]
