"""What the benchmarks share: taking turns, the memory of many processes, tables."""

import os
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil
import typer

T = TypeVar("T")

MARK = "FEDEAS_BENCH"  # in the environment of all processes of one measurement
_SAMPLE = 0.5  # seconds between looks at the memory


def command(main: Callable[..., object]) -> None:
    """Run a script's main function with its options from the command line."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()


def take_turns(sides: Mapping[str, Callable[[], T]], repeats: int) -> dict[str, list[T]]:
    """Run A, B, A, B, ..., so that whatever else the machine does meets all sides alike."""
    results: dict[str, list[T]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            results[name].append(side())
    return results


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long some work takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def median_of_turns(sides: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each side, after a turn that loads and allocates."""
    timed = {name: _timer(side) for name, side in sides.items()}
    turns = take_turns(timed, repeats + 1)
    return {name: statistics.median(seconds[1:]) for name, seconds in turns.items()}


def _timer(side: Callable[[], object]) -> Callable[[], float]:
    return lambda: seconds_of(side)


@dataclass(frozen=True)
class Finished:
    """A command that ended: its wall time and the most memory that all its processes had."""

    seconds: float
    peak: int


def run(command: Sequence[str | Path], **environment: str) -> Finished:
    """Run a command to its end and watch the memory of all processes that come of it.

    Raises
    ------
    SystemExit
        It failed.
    """
    mark = uuid.uuid4().hex
    begin = time.perf_counter()
    process = subprocess.Popen(
        list(map(str, command)),
        env=os.environ | environment | {MARK: mark},
        stdout=subprocess.DEVNULL,
    )
    with PeakMemory(lambda: marked(mark)) as memory:
        status = process.wait()
    if status:
        raise SystemExit(f"{' '.join(map(str, command))} failed with status {status}")
    return Finished(time.perf_counter() - begin, memory.peak)


def tool(name: str) -> Path:
    """Return a command of this environment."""
    return Path(sys.executable).parent / name


class PeakMemory:
    """Looks at the memory of processes again and again while the block runs.

    Proportional set sizes are added up, so that a page which several share counts once.

    Attributes
    ----------
    peak : int
        The largest sum met, in bytes.
    """

    def __init__(self, processes: Callable[[], Iterable[psutil.Process]]) -> None:
        self._processes = processes
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak = 0

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_SAMPLE):
            self.peak = max(self.peak, sum(map(proportional_size, self._processes())))


def proportional_size(process: psutil.Process) -> int:
    """Return the bytes of a process, its shared pages divided among those that share them."""
    with suppress(OSError):
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def marked(mark: str, but: Collection[int] = ()) -> list[psutil.Process]:
    """Return all processes with a mark in their environment, but not those of these ids."""
    return [p for p in psutil.process_iter() if p.pid not in but and _carries(p, mark)]


def _carries(process: psutil.Process, mark: str) -> bool:
    with suppress(psutil.Error, OSError):
        return bool(process.environ().get(MARK) == mark)
    return False


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table, each line as soon as it is known."""
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def megabytes(size: float) -> str:
    """Write a number of bytes."""
    return f"{size / 2**20:,.0f} MB"
