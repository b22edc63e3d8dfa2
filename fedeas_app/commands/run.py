"""``fedeas run``: one configuration, from start to end, in simulation or on a SuperLink."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fedeas_app.commands.configuration import (
    ConfigArgument,
    SetOption,
    load_settings,
    load_values,
    resumed_settings,
)
from fedeas_app.commands.console import one_sentence, out
from fedeas_app.commands.execution import execute, foresee, run_directory
from fedeas_app.commands.launcher import interruptible
from fedeas_app.commands.plan import poor_clients, show
from fedeas_app.commands.submission import (
    follow,
    require_connection,
    require_paths_for_others,
    submit,
)
from fedeas_app.errors import UserError
from fedeas_app.forecast import Forecast
from fedeas_app.runs.directory import summary_line
from fedeas_app.runs.following import Following
from fedeas_app.settings import Settings


@one_sentence
def run(
    config: ConfigArgument = None,
    overrides: SetOption = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show Flower's log at the end.")
    ] = False,
    superlink: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run on real machines: a SuperLink connection of Flower's config.toml.",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Go on with the interrupted run in DIR from its last checkpoint."
        ),
    ] = None,
) -> None:
    """Run a configuration in simulation, or on a SuperLink, and leave a record of it."""
    if resume is not None:
        _require_alone(config, superlink)
        _simulate(resumed_settings(resume, overrides), verbose)
        return
    config = config if config is not None else Path("digits")
    if superlink is None:
        _simulate(load_settings(config, overrides), verbose)
    else:
        # A preset's number of clients is for simulation.
        as_many_as_connected = [] if config.is_file() else ["num-clients=auto"]
        values = load_values(config, [*as_many_as_connected, *(overrides or [])])
        _deploy(Settings.parse(values), superlink)


def _require_alone(config: Path | None, superlink: str | None) -> None:
    if config is not None:
        raise UserError(
            f"--resume takes the configuration of the run, not {config}; change single keys by "
            "--set."
        )
    if superlink is not None:
        raise UserError(
            "--resume is for runs on this machine; on a SuperLink a run goes on with its own "
            "configuration and --set run-name=NAME --set resume=true."
        )


def _simulate(settings: Settings, verbose: bool) -> None:
    settings = _named(settings)
    directory = run_directory(settings)
    if directory.exists() and not settings.resume:
        raise UserError(f"{directory} exists already; choose another run-name or remove it.")
    with out.status(f"Reading {settings.dataset}"):
        expected = foresee(settings)
    show(expected, poor_clients(settings))
    try:
        with _progress() as progress:
            summary = execute(settings, expected, _Bars(progress, settings, expected))
    except KeyboardInterrupt:
        again = f"; go on with: fedeas run --resume {directory}" if directory.is_dir() else ""
        raise UserError(f"Interrupted{again}.") from None
    if verbose:
        out.print((directory / "flower.log").read_text(encoding="utf-8"), markup=False)
    out.print(summary_line(summary), style="bold", soft_wrap=True)
    out.print(f"Record: {directory}", soft_wrap=True)


def _deploy(settings: Settings, superlink: str) -> None:
    settings = _named(settings)
    require_connection(superlink)
    require_paths_for_others(settings)
    run_id = submit(superlink, settings)
    record = f"{settings.output_dir}/{settings.run_name} on the server's machine"
    _say(f"Run {run_id}; its record will be {record}.")
    try:
        with interruptible():
            outcome = follow(superlink, run_id)
    except KeyboardInterrupt:
        _say(
            f"The run goes on. Follow it: flwr log {run_id} {superlink}. "
            f"End it: flwr stop {run_id} {superlink}."
        )
        raise typer.Exit(130) from None
    outcome.require_completion()
    _say(f"Completed. Record: {record}.")


def _say(text: str) -> None:
    out.print(text, markup=False, soft_wrap=True)


def _named(settings: Settings) -> Settings:
    """Give the run its name here, so that its record can be followed from the start."""
    if settings.run_name:
        return settings
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() // 1_000_000 % 1000:03d}"
    name = f"{stamp}-{settings.strategy}-{settings.policy}-s{settings.seed}"
    return Settings.parse(settings.to_flat() | {"run-name": name})


class _Bars:
    """Shows what the record says of a run."""

    def __init__(self, progress: Progress, settings: Settings, expected: Forecast) -> None:
        self._progress = progress
        self._images = expected.synthetic
        self._run: Following | None = None
        clients = int(settings.num_clients)
        self._learning = (
            progress.add_task("generator", total=settings.generator_rounds, note="starting Flower")
            if settings.trains_generator
            else None
        )
        note = "starting Flower" if self._learning is None else ""
        self._making = progress.add_task("prepare", total=clients, note=note)
        self._training = progress.add_task("train", total=settings.rounds, note="", start=False)

    def __call__(self, directory: Path) -> None:
        """Look at the record."""
        self._run = self._run or Following(directory)
        self._run.look()
        self._show(self._run)

    def _show(self, run: Following) -> None:
        if self._learning is not None and run.generator_rounds:
            note = "" if run.generator_loss is None else f"loss {run.generator_loss:.4f}"
            self._progress.update(self._learning, completed=run.generator_rounds, note=note)
        if run.ready:
            note = f"{run.images:,} of {self._images:,} images ready"
            self._progress.update(self._making, completed=run.ready, note=note)
        if run.accuracy is not None:
            self._progress.start_task(self._training)
            note = f"test accuracy {run.accuracy:.2%}"
            self._progress.update(self._training, completed=run.rounds, note=note)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description:<9}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=out,
    )
