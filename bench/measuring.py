"""What the benchmarks share: taking turns, the memory of many processes, tables."""

import os
import statistics
import subprocess
import sys
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self, TypeVar

import psutil
import typer

T = TypeVar("T")

MARK = "FEDEAS_BENCH"  # in the environment of all processes of one measurement
_VERDICT = {True: "met", False: "missed"}
_NAMES = ("", "digits")  # nothing, and what every environment has: never a directory
_SAMPLE = 0.5  # seconds between looks at the memory

# What the processes of a run are, and how a word of their command lines begins, in this order.
ROLES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("SuperLink", ("flower-superlink",)),
    ("SuperExec", ("flower-superexec",)),
    ("server and simulation", ("flwr-simulation",)),
    ("`flwr run`, which follows the log", ("flwr",)),
    ("a worker with its clients", ("default_worker.py", "ray::IDLE", "ray::ClientAppActor")),
    ("Ray's own", ("gcs_server", "raylet", "ray::", "dashboard.py", "monitor.py", "log_monitor.py",
                   "agent.py", "main.py")),
    ("the floor", ("floor.py",)),
    ("the command line and its guard", ("fedeas", "fedeas_app.processes")),
)  # fmt: skip


def found(dataset: str) -> str:
    """Return a local path whole, as processes in other directories need it; leave any other name.

    Whoever names a directory that is there means it, also without ``./`` before it.
    """
    path = Path(dataset).expanduser().absolute()
    return str(path) if dataset not in _NAMES and path.exists() else dataset


Dataset = Annotated[
    str, typer.Option(parser=found, metavar="NAME", help="A local path, or a hub id.")
]


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
    """A command that ended: its wall time, the most memory that its processes had, and whose."""

    seconds: float
    peak: int
    parts: Sequence[tuple[str, int]] = ()


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
    return Finished(time.perf_counter() - begin, memory.peak, memory.parts)


def tool(name: str) -> Path:
    """Return a command of this environment."""
    return Path(sys.executable).parent / name


class Watch(ABC):
    """Looks at something again and again in a thread while the block runs, and once after it.

    Parameters
    ----------
    pause : float
        Seconds between two looks.
    """

    def __init__(self, pause: float) -> None:
        self._pause = pause
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @abstractmethod
    def look(self) -> None:
        """Look once."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        over = False
        while not over:
            over = self._over.wait(self._pause)
            self.look()


class PeakMemory(Watch):
    """Looks at the memory of processes again and again while the block runs.

    Proportional set sizes are added up, so that a page which several share counts once.

    Attributes
    ----------
    peak : int
        The largest sum met, in bytes.
    parts : list of tuple of str and int
        The processes of that sum: what each is, and its bytes.
    """

    def __init__(self, processes: Callable[[], Iterable[psutil.Process]]) -> None:
        super().__init__(_SAMPLE)
        self._processes = processes
        self.peak = 0
        self.parts: list[tuple[str, int]] = []

    def look(self) -> None:
        """Add up what all processes have now."""
        parts = [(role(words(p)), proportional_size(p)) for p in self._processes()]
        total = sum(size for _, size in parts)
        if total > self.peak:
            self.peak, self.parts = total, parts


def words(process: psutil.Process) -> list[str]:
    """Return the command line of a process, without directories; empty if it has ended."""
    with suppress(psutil.Error):
        return [Path(word).name for word in process.cmdline()]
    return []


def role(line: Sequence[str]) -> str:
    """Say what a process is, from its command line without directories.

    An interpreter and its options may come first; Ray's workers replace their command lines.
    """
    found = (name for word in line[:3] for name, known in ROLES if word.startswith(known))
    return next(found, "other")


def proportional_size(process: psutil.Process) -> int:
    """Return the bytes of a process, its shared pages divided among those that share them."""
    with suppress(OSError):
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def marked(mark: str) -> list[psutil.Process]:
    """Return all processes with a mark in their environment, and their children.

    Ray's agents write their titles over their environments.
    """
    processes = list(psutil.process_iter(["ppid"]))
    carrying = {process.pid for process in processes if _carries(process, mark)}
    return [p for p in processes if p.pid in carrying or p.info["ppid"] in carrying]


def _carries(process: psutil.Process, mark: str) -> bool:
    with suppress(psutil.Error, OSError):
        return bool(process.environ().get(MARK) == mark)
    return False


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table, each line as soon as it is known."""
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def print_goals(goals: Iterable[tuple[str, str, bool]]) -> None:
    """Print what is asked for, what came out, and whether that is enough."""
    print()
    print_table(("goal", "result", ""), ((*told, _VERDICT[met]) for *told, met in goals))


def megabytes(size: float) -> str:
    """Write a number of bytes."""
    return f"{size / 2**20:,.0f} MB"
