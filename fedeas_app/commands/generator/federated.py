"""``fedeas generator train --federated``: simulated clients train a generator together."""

from pathlib import Path
from typing import Final

import click
import typer
from click.core import ParameterSource

from fedeas_app.checking import check_elsewhere
from fedeas_app.commands.configuration import load_settings
from fedeas_app.commands.console import err, out
from fedeas_app.commands.execution import execute, foresee
from fedeas_app.commands.generator.drawing import progress_bar
from fedeas_app.commands.launcher import interruptible
from fedeas_app.errors import UserError
from fedeas_app.forecast import Forecast
from fedeas_app.reading import read_json
from fedeas_app.runs.directory import read_lines
from fedeas_app.runs.following import Following
from fedeas_app.runs.resuming import is_completed, require_same
from fedeas_app.settings import FEDERATED, Settings
from fedeas_app.wording import number, plural

_INTERRUPTED = 130  # exit status: 128 and the number of SIGINT
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
# What the run of the training leaves beside its generator, as far as it does.
_EVIDENCE: Final = ("generator.jsonl", "generator-copies.json", "privacy.json")
_ALONE: Final = (f'generator="{FEDERATED}"', "generator-only=true")


def train_federatedly(
    config: Path | None, overrides: list[str] | None, target: Path, context: click.Context
) -> None:
    """Simulate the generator's rounds alone, and put the generator where the user wants it.

    What belongs to the unfinished training lies in ``TARGET.training``, as for pooled images; the
    same command again goes on with it.

    Raises
    ------
    UserError
        An option is for pooled images, the target exists, another training has its place, or the
        run failed.
    """
    from fedeas_app.files import require_new
    from fedeas_app.generators.workshop import GENERATOR, RUN, workshop, workshop_of

    target = require_new(target).absolute()
    values = [*(overrides or []), *_as_overrides(context), *_ALONE]
    settings = _taken_up(load_settings(config, values), workshop_of(target))
    expected = _checked(settings)
    with workshop(target, RUN) as place:
        if not is_completed(place / RUN):  # or its process ended before it was put in its place
            _run(settings, expected)
        _keep_evidence(place / RUN)
        (place / RUN / GENERATOR).rename(target)
    out.print(_evidence_of(target), markup=False, soft_wrap=True)


def _taken_up(settings: Settings, place: Path) -> Settings:
    """Return the settings of the run in a place, which goes on if it was begun with the same.

    Raises
    ------
    UserError
        It was begun with others.
    """
    from fedeas_app.generators.workshop import RUN

    resume = (place / RUN / "config.toml").is_file()
    own = {"output-dir": str(place), "run-name": RUN, "resume": resume}
    settings = Settings.parse(settings.to_flat() | own)
    if resume:
        try:
            require_same(place / RUN, settings)
        except UserError as error:
            raise UserError(f"{error} To begin anew, remove {place}.") from None
    return settings


def _checked(settings: Settings) -> Forecast:
    """Return what the clients hold, once nothing speaks against their training.

    Raises
    ------
    UserError
        The data, the device or the size of the network does.
    """
    with err.status(f"Reading {settings.dataset}"), check_elsewhere(settings) as refuse:
        expected = foresee(settings)
        refuse()
    return expected


def _run(settings: Settings, expected: Forecast) -> None:
    with progress_bar(disable=not err.is_terminal) as progress:
        bar = progress.add_task("training", total=settings.generator_rounds)
        run: list[Following] = []

        def observe(directory: Path) -> None:
            run[:] = run or [Following(directory)]
            run[0].look()
            progress.update(bar, completed=run[0].generator_rounds)

        try:
            with interruptible():
                execute(settings, expected, observe)
        except KeyboardInterrupt:
            err.print("Interrupted; the same command goes on.", style="yellow")
            raise typer.Exit(_INTERRUPTED) from None


def _keep_evidence(run: Path) -> None:
    """Move what a run found out about its generator into the generator's directory."""
    from fedeas_app.generators.workshop import GENERATOR

    for name in _EVIDENCE:
        if (run / name).is_file():
            (run / name).rename(run / GENERATOR / name)


def _evidence_of(generator: Path) -> str:
    """Say how its training went, as far as it is known."""
    rounds, copies, privacy = (generator / name for name in _EVIDENCE)
    losses = [line["loss"] for line in read_lines(rounds)]
    told = [plural(len(losses), "round"), f"loss {number(losses[-1] if losses else None, '.4f')}"]
    if copies.is_file():
        found = read_json(copies)
        told += [f"{found['copies']} of {found['checked']} images copy one of a client's"]
    if privacy.is_file() and (epsilon := read_json(privacy)["epsilon"]) is not None:
        told += [f"ε = {epsilon:.2f}"]
    return f"Trained in {', '.join(told)}; {', '.join(_EVIDENCE[:2])} in it say more."


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
