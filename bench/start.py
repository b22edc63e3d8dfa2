"""From ``fedeas run`` to the first training step, everything cached, and where the seconds go.

A watcher notes when each process of the run begins and when each file of its record appears. The
clients have so few images that the first round ends within a fraction of a second of its first
training step.

    python bench/start.py
    python bench/start.py --quick
"""

import math
import os
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil
from measuring import MARK, Watch, command, marked, print_goals, print_table, tool, words

from fedeas_app.processes import cores

GOAL = 15.0  # seconds
_LOOK = 0.05  # seconds between two looks at processes and files

# What begins, in this order, and how it is recognised: by a word at the beginning of a command
# line, without its directory, or by a file of the record.
PROCESSES = {
    "the command line has read its configuration; SuperLink begins": {"flower-superlink"},
    "device and generator are being checked": {"fedeas_app.checking"},
    "SuperLink answers; `flwr run` begins": {"flwr"},
    "SuperLink's SuperExec begins": {"flower-superexec"},
    "the simulation's process begins": {"flwr-simulation"},
    "Ray begins": {"gcs_server"},
    "Ray's workers begin": {"default_worker.py", "ray::IDLE", "ray::ClientAppActor"},
}
FIRST_ROUND = "the first round is over"
FILES = {  # and how many lines they have by then at least
    "the server app runs": ("config.toml", 0),
    "data and model are loaded": ("manifest.json", 0),
    "the clients are ready": ("plan.json", 0),
    "the first model is evaluated; training begins": ("rounds.jsonl", 1),
    FIRST_ROUND: ("rounds.jsonl", 2),
}


def main(repeats: int = 3, policy: str = "fedeas", quick: bool = False) -> None:
    """Print when each thing happens, in seconds from the command, as medians."""
    run_once(policy)  # what is to be cached gets cached
    runs = [run_once(policy) for _ in range(1 if quick else repeats)]
    begins = {name: statistics.median(at(run, name) for run in runs) for name in runs[0]}
    print_table(("what", "at (s)", "after"), rows(begins))
    first_step = at(begins, FIRST_ROUND)
    print_goals(
        [
            (
                f"first training step within {GOAL:g} s",
                f"{first_step:.1f} s at most, {cores()} cores",
                first_step <= GOAL,
            )
        ]
    )


def at(run: Mapping[str, float], name: str) -> float:
    """Return when something happened in a run; not a number where nobody saw it."""
    return run.get(name, math.nan)


def rows(begins: Mapping[str, float]) -> Iterator[tuple[str, str, str]]:
    """Yield what happened, when, and how long after the one before."""
    before = 0.0
    for name, seconds in begins.items():
        yield name, f"{seconds:.1f}", f"{seconds - before:+.1f}"
        before = seconds


def run_once(policy: str) -> dict[str, float]:
    """Run three small clients for a round; return when each thing happened, in order."""
    with tempfile.TemporaryDirectory(prefix="fedeas-bench-") as place:
        keys = {
            "num-clients": 3, "train-samples": 120, "test-samples": 60, "rounds": 1,
            "local-epochs": 1, "policy": policy, "partitioner": "iid", "output-dir": place,
            "run-name": "run",
        }  # fmt: skip
        options = [f"--set={key}={value}" for key, value in keys.items()]
        mark = uuid.uuid4().hex
        begin = time.time()
        process = subprocess.Popen(
            [tool("fedeas"), "run", "digits", *options],
            env=os.environ | {MARK: mark},
            stdout=subprocess.DEVNULL,
        )
        with Watcher(mark, Path(place) / "run") as watcher:
            status = process.wait()
        if status:
            raise SystemExit(f"fedeas run failed with status {status}")
        events = {"the command": begin, **watcher.events, "the command has ended": time.time()}
        return {name: when - begin for name, when in sorted(events.items(), key=lambda e: e[1])}


class Watcher(Watch):
    """Notes when processes with a mark and files of a record are first seen.

    Attributes
    ----------
    events : dict of str to float
        Seconds of the clock, by name.
    """

    def __init__(self, mark: str, record: Path) -> None:
        super().__init__(_LOOK)
        self._mark = mark
        self._record = record
        self.events: dict[str, float] = {}

    def look(self) -> None:
        """Note what is new."""
        for name, when in [*self._processes(), *self._files()]:
            self.events.setdefault(name, when)

    def _processes(self) -> Iterator[tuple[str, float]]:
        """Yield when those begin that are not known yet.

        All are looked at each time: one that has only just begun still has the command line of the
        process that it comes from.
        """
        missing = {name: known for name, known in PROCESSES.items() if name not in self.events}
        for process in marked(self._mark) if missing else ():
            with suppress(psutil.Error):
                begins, first = process.create_time(), words(process)[:3]
                yield from ((n, begins) for n, known in missing.items() if known & {*first})

    def _files(self) -> Iterator[tuple[str, float]]:
        for name, (file, lines) in FILES.items():
            path = self._record / file
            with suppress(OSError):
                if name not in self.events and path.read_bytes().count(b"\n") >= lines:
                    yield name, path.stat().st_mtime


if __name__ == "__main__":
    command(main)
