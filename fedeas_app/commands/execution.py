"""One run from start to end in simulation, and what only its starter can add to the record."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedeas_app.checking import check_elsewhere
from fedeas_app.commands.launcher import Simulation, simulation
from fedeas_app.commands.plan import label_counts
from fedeas_app.errors import UserError
from fedeas_app.files import make_directory, told, write_text
from fedeas_app.forecast import Forecast, forecast
from fedeas_app.reading import read_json
from fedeas_app.runs.directory import (
    BROKEN_OFF,
    INTERRUPTED,
    KILLED,
    LAPSED,
    RESUMING,
    mark_failed,
    mark_resuming,
    read_summary,
)
from fedeas_app.runs.reading import ClassCounts, write_counts
from fedeas_app.runs.samples import keep_samples
from fedeas_app.settings import Settings

Observe = Callable[[Path], None]

_GIVEN_UP = "task-token authentication failed"  # Flower, to a process that it does not wait for
_POLL = 0.25  # seconds between looks at the record


def foresee(settings: Settings) -> Forecast:
    """Return what the clients of a simulation hold and what they are going to make.

    Raises
    ------
    UserError
        The data cannot be read or partitioned, or the policy has nowhere to put its images.
    """
    return forecast(label_counts(settings), settings.policy, settings.beta)


def execute(settings: Settings, expected: Forecast, observe: Observe) -> dict[str, Any]:
    """Run a configuration and return the summary of its record.

    Parameters
    ----------
    settings : Settings
        With a ``run-name``, so that the record can be followed.
    expected : Forecast
        What `foresee` says of these settings.
    observe : callable
        Gets the directory of the record again and again while the run goes on, and once after it.

    Raises
    ------
    UserError
        The run failed.
    KeyboardInterrupt
        It was interrupted; the record says so, and no process is left.
    """
    from fedeas_app.runs.tracking import require_tracker

    require_tracker(settings.tracker)
    directory = run_directory(settings)
    make_directory(settings.output_path)
    if settings.resume:
        mark_resuming(directory)
    try:
        summary = _simulate(settings, expected, observe)
    except KeyboardInterrupt:
        _mark_failed(directory, INTERRUPTED)
        raise
    keep_samples(settings, directory)
    return summary


def run_directory(settings: Settings) -> Path:
    """Return the directory of a named run."""
    return settings.output_path / settings.run_name


def _simulate(settings: Settings, expected: Forecast, observe: Observe) -> dict[str, Any]:
    directory = run_directory(settings)
    with (
        simulation(settings) as flower,
        _added(flower, directory, expected),
        check_elsewhere(settings) as refuse,
    ):
        process = flower.submit()  # seconds before the record begins, and the check is shorter
        with _failure_noted(directory):
            refuse()
        _follow(process, directory, observe)
        return _outcome(flower, directory)


def _follow(process: "subprocess.Popen[bytes]", directory: Path, observe: Observe) -> None:
    while process.poll() is None:
        observe(directory)
        time.sleep(_POLL)
    observe(directory)


def _outcome(flower: Simulation, directory: Path) -> dict[str, Any]:
    """Return the summary of a completed run.

    Raises
    ------
    UserError
        The run failed; Flower's own exit status would not tell.
    """
    summary = read_summary(directory)
    if summary is None or summary["status"] == RESUMING:
        _mark_failed(directory, "it did not start")
        raise UserError(f"The run did not start. Flower says:\n{flower.complaints()}")
    if summary["status"] == "completed":
        return summary
    reason = summary.get("reason") or (LAPSED if _GIVEN_UP in flower.log_text() else KILLED)
    _mark_failed(directory, reason)
    again = f"; go on with: fedeas run --resume {directory}" if reason in BROKEN_OFF else ""
    raise UserError(f"The run failed: {reason} (log: {directory / 'flower.log'}){again}")


@contextmanager
def _failure_noted(directory: Path) -> Iterator[None]:
    """Leave no record that says of a refused run that it goes on."""
    try:
        yield
    except UserError as error:
        _mark_failed(directory, str(error))
        raise


def _mark_failed(directory: Path, reason: str) -> None:
    with suppress(OSError):  # a full disk; the run has ended all the same
        mark_failed(directory, reason)


@contextmanager
def _added(flower: Simulation, directory: Path, expected: Forecast) -> Iterator[None]:
    """Keep Flower's log and the counts with the record, however the run ends."""
    try:
        yield
    except BaseException:
        with suppress(OSError):  # a full disk is not the reason to tell of
            _keep(flower, directory, expected)
        raise
    with told(directory):
        _keep(flower, directory, expected)


def _keep(flower: Simulation, directory: Path, expected: Forecast) -> None:
    if directory.is_dir():
        _keep_log(directory / "flower.log", flower.log_text())
        _keep_counts(directory, expected)


def _keep_log(path: Path, text: str) -> None:
    """Keep Flower's log, after that of the run's earlier part if there is one."""
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    write_text(path, before + text)


def _keep_counts(directory: Path, expected: Forecast) -> None:
    """Keep how many images of each class every client has; a server is never told."""
    manifest = directory / "manifest.json"
    if manifest.is_file():  # else the run ended before it knew its data
        classes = read_json(manifest)["classes"]
        write_counts(directory, ClassCounts(tuple(classes), expected.counts, expected.allocation))
