"""From ``fedeas run`` to the first training step, everything cached, and where the seconds go.

A watcher notes when each process of the run begins and when each file of its record appears. The
clients have so few images that the first round ends within a fraction of a second of its first
training step.

    python bench/start.py
    python bench/start.py --quick
"""

import os
import statistics
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
from measuring import MARK, command, marked, print_table, tool

from fedeas_app.processes import cores

_LOOK = 0.05  # seconds between two looks at processes and files

# What begins, in this order, and how it is recognised: in a command line, or in the record.
PROCESSES = {
    "the command line has read its configuration; SuperLink begins": "flower-superlink",
    "SuperLink answers; `flwr run` begins": "flwr run",
    "SuperLink's SuperExec begins": "flower-superexec",
    "the simulation's process begins": "flwr-simulation",
    "Ray begins": "gcs_server",
    "Ray's workers begin": "default_worker.py",
}
FILES = {
    "the server app runs": "config.toml",
    "data and model are loaded": "manifest.json",
    "the clients are ready": "plan.json",
    "the first model is evaluated; training begins": "rounds.jsonl",
    "the first round is over": "checkpoint.safetensors",
}


def main(repeats: int = 3, quick: bool = False) -> None:
    """Print when each thing happens, in seconds from the command, as medians."""
    run_once()  # what is to be cached gets cached
    runs = [run_once() for _ in range(1 if quick else repeats)]
    rows = []
    before = 0.0
    for name in runs[0]:
        seconds = statistics.median(run.get(name, float("nan")) for run in runs)
        rows.append((name, f"{seconds:.1f}", f"{seconds - before:+.1f}"))
        before = seconds
    print_table(("what", "at (s)", "after"), rows)
    print(f"\n{cores()} cores")


def run_once() -> dict[str, float]:
    """Run three small clients for a round; return when each thing happened, in order."""
    with tempfile.TemporaryDirectory(prefix="fedeas-bench-") as place:
        keys = {
            "num-clients": 3, "train-samples": 120, "test-samples": 60, "rounds": 1,
            "local-epochs": 1, "policy": "none", "partitioner": "iid", "output-dir": place,
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


class Watcher:
    """Notes when processes with a mark and files of a record are first seen.

    Attributes
    ----------
    events : dict of str to float
        Seconds of the clock, by name.
    """

    def __init__(self, mark: str, record: Path) -> None:
        self._mark = mark
        self._record = record
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._known: set[int] = set()
        self.events: dict[str, float] = {}

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK):
            for name, when in [*self._new_processes(), *self._new_files()]:
                self.events.setdefault(name, when)

    def _new_processes(self) -> Iterator[tuple[str, float]]:
        """Yield what the processes begin that were not met before."""
        for process in marked(self._mark, but=self._known):
            with suppress(psutil.Error):
                line = " ".join(process.cmdline())
                for name, part in PROCESSES.items():
                    if part in line:
                        self._known.add(process.pid)
                        yield name, process.create_time()

    def _new_files(self) -> Iterator[tuple[str, float]]:
        for name, file in FILES.items():
            if name not in self.events:
                with suppress(OSError):
                    yield name, (self._record / file).stat().st_mtime


if __name__ == "__main__":
    command(main)
