"""What a terminal shows while the cells of a comparison run."""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from fedeas_app.commands.console import out
from fedeas_app.comparison.cells import Cell
from fedeas_app.forecast import Forecast
from fedeas_app.runs.directory import read_summary, summary_line
from fedeas_app.runs.following import Following


def grid_progress() -> Progress:
    """Return the bars of a comparison."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[note]}"),
        console=out,
    )


class GridProgress:
    """Shows how far a grid and its running cell are.

    Parameters
    ----------
    progress : Progress
    total, finished : int
        Cells.
    seconds : sequence of float
        What finished cells took, from which the time left is worked out.

    Attributes
    ----------
    done : int
        Cells that are completed.
    """

    def __init__(
        self, progress: Progress, total: int, finished: int, seconds: Sequence[float]
    ) -> None:
        self._progress = progress
        self.done = finished
        self._left = total - finished
        self._seconds = list(seconds)
        self._started = time.monotonic()
        self._bar: TaskID | None = None
        self._run: Following | None = None
        self._images = 0
        self._cells = progress.add_task("cells", total=total, completed=finished, note="")

    def start(self, label: str, cell: Cell) -> None:
        """Show a cell that begins."""
        self._started = time.monotonic()
        self._run = None
        self._bar = self._progress.add_task(
            f"{label}, seed {cell.seed}", total=cell.settings.rounds, note="starting Flower"
        )

    def expect(self, expected: Forecast) -> None:
        """Hear how many images the running cell needs."""
        self._images = expected.synthetic

    def observe(self, directory: Path) -> None:
        """Show what the running cell's record says."""
        self._run = self._run or Following(directory)
        self._run.look()
        if self._bar is not None:
            self._progress.update(self._bar, completed=self._run.rounds, note=self._note(self._run))
        self._progress.update(self._cells, note=self._time_left())

    def finish(self, label: str, cell: Cell, reason: str | None) -> None:
        """Take the cell's bar away and say in a line what became of it."""
        if self._bar is not None:
            self._progress.remove_task(self._bar)
        self._bar = None
        self._left -= 1
        self._progress.update(self._cells, advance=1, note="")
        if reason is None:
            self.done += 1
            self._seconds.append(time.monotonic() - self._started)
        summary = read_summary(cell.directory) or {}
        words = summary_line(summary) if reason is None else f"failed. {reason}"
        line = Text(f"{label}, seed {cell.seed}: {words}", style="" if reason is None else "red")
        self._progress.console.print(line, soft_wrap=True)

    def _note(self, run: Following) -> str:
        if run.accuracy is not None:
            return f"test accuracy {run.accuracy:.1%}"
        if run.ready:
            return f"{run.images:,} of {self._images:,} images ready"
        if run.generator_rounds:
            return f"round {run.generator_rounds} of the generator"
        return "starting Flower"

    def _time_left(self) -> str:
        if not self._seconds:
            return ""
        gone = time.monotonic() - self._started
        each = fmean(self._seconds)
        left = max(0.0, each - gone) + each * (self._left - 1)
        return f"about {duration(left)} left"


def duration(seconds: float) -> str:
    """Return a number of seconds for a person."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "a minute"
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"
