"""Run the cells of a grid that are not finished yet, one after the other."""

import shutil
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from filelock import FileLock, Timeout

from fedeas_app.comparison.cells import Cell
from fedeas_app.comparison.design import Design
from fedeas_app.comparison.reading import GRID, Comparison, is_comparison, read_comparison
from fedeas_app.comparison.writing import write_comparison
from fedeas_app.errors import UserError, first_line
from fedeas_app.files import make_directory, sweep
from fedeas_app.runs.directory import BROKEN_OFF, INTERRUPTED, read_summary
from fedeas_app.runs.reading import Run, read_run
from fedeas_app.runs.resuming import CHECKPOINT, require_resumable

_LOCK: Final = ".lock"


class Watcher(Protocol):
    """Is told what becomes of the cells."""

    def start(self, label: str, cell: Cell) -> None:
        """Hear that a cell is about to run."""

    def finish(self, label: str, cell: Cell, reason: str | None) -> None:
        """Hear that it has ended, and why if it was not completed."""


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Make the directory of a comparison, or hold the one there is, while it runs.

    The lock is the system's and ends with the process: one that was killed blocks nobody.

    Raises
    ------
    UserError
        It holds something else, cannot be written, or another comparison is running in it.
    """
    make_directory(directory)
    if not is_comparison(directory) and not _is_empty(directory):
        raise UserError(
            f"{directory} holds something other than a comparison; name an empty or a new "
            "directory with --out."
        )
    try:
        with FileLock(directory / _LOCK, timeout=0):
            sweep(directory)
            yield
    except Timeout:
        raise UserError(
            f"Another fedeas compare is running in {directory}; wait for its end, or name another "
            "directory with --out."
        ) from None


def _is_empty(directory: Path) -> bool:
    """Tell whether there is nothing but a grid, which is written before the index."""
    return {path.name for path in directory.iterdir() if path.name[0] != "."} <= {GRID}


def finished_runs(plan: Design) -> dict[str, Run]:
    """Return the completed runs of a grid that are there already, by the names of their cells.

    Raises
    ------
    UserError
        The directory of a cell holds a completed run of other settings, or one that cannot be
        read: its hours of computing are the user's to throw away.
    """
    found = {cell.name: _finished(cell) for _, cell in plan.cells}
    return {name: run for name, run in found.items() if run is not None}


def run_cells(
    plan: Design,
    directory: Path,
    finished: Container[str],
    perform: Callable[[Cell], object],
    watcher: Watcher,
) -> Comparison:
    """Run what is not finished, and write the index and the tables anew after every cell.

    A cell that was broken off goes on from its checkpoint. One that failed, or had come to none,
    runs again; what it left before is removed.

    Parameters
    ----------
    plan : Design
    directory : Path
        Of the comparison, held by `alone_in`.
    finished : container of str
        Names of cells to skip.
    perform : callable
        Runs a cell; what it raises is why the cell failed, and does not stop the others.
    watcher : Watcher
    """
    todo = [(arm, cell) for arm, cell in plan.cells if cell.name not in finished]
    failed = _failed_before(directory, {cell.name for _, cell in todo})
    comparison = write_comparison(directory, plan, failed)
    for arm, cell in todo:
        watcher.start(arm.label, cell)
        failed.pop(cell.name, None)
        failed |= _attempt(cell, perform)
        comparison = write_comparison(directory, plan, failed)
        watcher.finish(arm.label, cell, failed.get(cell.name))
    return comparison


def _attempt(cell: Cell, perform: Callable[[Cell], object]) -> dict[str, str]:
    """Run a cell and return why it failed, by its name, or nothing."""
    try:
        perform(_taken_up(cell))
    except UserError as error:
        return {cell.name: str(error)}
    except Exception as error:  # a night's grid must not end with one cell
        return {cell.name: f"{type(error).__name__}: {first_line(error)}"}
    return {}


def _taken_up(cell: Cell) -> Cell:
    """Return the cell to be gone on with, or to be begun where there is nothing worth keeping."""
    if not cell.directory.exists():
        return cell
    if _is_broken_off(cell):
        return cell.resumed()
    shutil.rmtree(cell.directory)
    return cell


def _is_broken_off(cell: Cell) -> bool:
    if not (cell.directory / CHECKPOINT).is_file():
        return False
    try:
        summary = require_resumable(cell.directory, cell.settings)
    except UserError:
        return False
    return summary.get("reason", INTERRUPTED) in BROKEN_OFF


def _failed_before(directory: Path, todo: set[str]) -> dict[str, str]:
    """Return why cells failed in an earlier start, until it is their turn again."""
    if not is_comparison(directory):
        return {}
    try:
        failed = read_comparison(directory).failed
    except UserError:  # damaged: it is about to be written anew
        return {}
    return {cell.name: cell.reason for cell in failed if cell.name in todo}


def _finished(cell: Cell) -> Run | None:
    if not _may_be_completed(cell.directory):
        return None
    run = _read(cell)
    if not cell.has_settings(run.settings):
        raise UserError(
            f"{cell.directory} holds a run of other settings, perhaps of another version; remove "
            "it, or name another directory with --out."
        )
    return run


def _may_be_completed(directory: Path) -> bool:
    """Tell whether a record is completed; one that does not say is not ours to throw away."""
    try:
        summary = read_summary(directory)
    except ValueError:
        return True
    return isinstance(summary, dict) and summary.get("status") == "completed"


def _read(cell: Cell) -> Run:
    try:
        return read_run(cell.directory)
    except UserError as error:
        raise UserError(
            f"{cell.directory} holds a completed run that this version cannot read "
            f"({first_line(error)}); remove it, or name another directory with --out."
        ) from error
