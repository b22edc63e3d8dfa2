"""``fedeas run``: one configuration, from start to end, in simulation."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from fedeas_app.commands.configuration import ConfigArgument, SetOption, load_settings
from fedeas_app.commands.console import one_sentence, out
from fedeas_app.commands.launcher import Simulation, simulation
from fedeas_app.commands.plan import label_counts, poor_clients, show
from fedeas_app.errors import UserError
from fedeas_app.files import make_directory, write_text
from fedeas_app.forecast import Forecast, forecast
from fedeas_app.runs.directory import mark_failed, read_lines, read_summary, summary_line
from fedeas_app.settings import Settings

_POLL = 0.25  # seconds between looks at the record


@one_sentence
def run(
    config: ConfigArgument = None,
    overrides: SetOption = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show Flower's log at the end.")
    ] = False,
) -> None:
    """Run a configuration in simulation and leave a record of it."""
    settings = _named(load_settings(config if config is not None else Path("digits"), overrides))
    directory = settings.output_path / settings.run_name
    with out.status(f"Reading {settings.dataset}"):
        counts = label_counts(settings)
    expected = forecast(counts, settings.policy, settings.beta)
    show(expected, poor_clients(settings))
    make_directory(settings.output_path)
    try:
        with simulation(settings) as flower, _log_kept(flower, directory):
            _check_generator_and_device(settings)
            _follow(flower.submit(), directory, settings, expected)
            summary = _outcome(flower, directory)
            if verbose:
                out.print(flower.log_text(), markup=False)
    except KeyboardInterrupt:
        mark_failed(directory, "interrupted")
        kept = f"; what was finished is in {directory}" if directory.is_dir() else ""
        raise UserError(f"Interrupted{kept}.") from None
    out.print(summary_line(summary), style="bold", soft_wrap=True)
    out.print(f"Record: {directory}", soft_wrap=True)


def _named(settings: Settings) -> Settings:
    """Give the run its name here, so that its record can be followed from the start."""
    if settings.run_name:
        if (settings.output_path / settings.run_name).exists():
            raise UserError(
                f"{settings.output_path / settings.run_name} exists already; choose another "
                "run-name or remove it."
            )
        return settings
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() // 1_000_000 % 1000:03d}"
    name = f"{stamp}-{settings.strategy}-{settings.policy}-s{settings.seed}"
    return Settings.parse(settings.to_flat() | {"run-name": name})


def _check_generator_and_device(settings: Settings) -> None:
    """Refuse what every client would refuse; torch is loaded while the SuperLink starts."""
    from fedeas_app.devices import resolve_device
    from fedeas_app.task import require_generator

    resolve_device(settings.device)
    require_generator(settings)


def _follow(
    process: "subprocess.Popen[bytes]", directory: Path, settings: Settings, expected: Forecast
) -> None:
    """Show what the record says until the process ends."""
    with _progress() as progress:
        clients = int(settings.num_clients)
        making = progress.add_task("prepare", total=clients, note="starting Flower")
        training = progress.add_task("train", total=settings.rounds, note="", start=False)
        while process.poll() is None:
            _show_preparation(progress, making, directory, expected.synthetic)
            _show_rounds(progress, training, directory)
            time.sleep(_POLL)
        _show_preparation(progress, making, directory, expected.synthetic)
        _show_rounds(progress, training, directory)


def _show_preparation(progress: Progress, bar: TaskID, directory: Path, total: int) -> None:
    ready = read_lines(directory / "preparation.jsonl")
    if ready:
        images = sum(line["synthetic"] for line in ready)
        progress.update(bar, completed=len(ready), note=f"{images:,} of {total:,} images ready")


def _show_rounds(progress: Progress, bar: TaskID, directory: Path) -> None:
    rounds = read_lines(directory / "rounds.jsonl")
    if rounds:
        progress.start_task(bar)
        note = f"test accuracy {rounds[-1]['accuracy']:.2%}"
        progress.update(bar, completed=rounds[-1]["round"], note=note)


def _outcome(flower: Simulation, directory: Path) -> dict[str, Any]:
    """Return the summary of a completed run.

    Raises
    ------
    UserError
        The run failed; Flower's own exit status would not tell.
    """
    summary = read_summary(directory)
    if summary is None:
        raise UserError(f"The run did not start. Flower says:\n{flower.complaints()}")
    if summary["status"] == "completed":
        return summary
    mark_failed(directory, "the server was ended from outside")
    reason = summary.get("reason", "the server was ended from outside")
    raise UserError(f"The run failed: {reason} (log: {directory / 'flower.log'})")


@contextmanager
def _log_kept(flower: Simulation, directory: Path) -> Iterator[None]:
    """Keep Flower's log with the record, however the run ends."""
    try:
        yield
    finally:
        if directory.is_dir():
            write_text(directory / "flower.log", flower.log_text())


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description:<8}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=out,
    )
