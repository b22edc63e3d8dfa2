"""The processes of a simulation: known by a mark in their environment, and ended together.

Flower and Ray start some in sessions of their own, so that neither parents nor groups tell which
they are. A guard outlives whoever started the simulation, and ends them if it is killed.
"""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

MARK = "FEDEAS_LAUNCH"
_SERVER = "flwr-simulation"
STOP_TIMEOUT = 10.0  # seconds for processes to end before they are killed


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end(mark: str) -> None:
    """End every process that carries a mark, whoever its parent is by now."""
    processes = _marked(mark)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(_request_to_end(process))
    _, alive = psutil.wait_procs(processes, timeout=STOP_TIMEOUT)
    for process in [*alive, *_marked(mark)]:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _request_to_end(process: psutil.Process) -> signal.Signals:
    """Return the signal that a process hears: Ray takes SIGTERM away from Flower's server."""
    is_server = any(Path(word).name == _SERVER for word in process.cmdline()[:2])
    return signal.SIGINT if is_server else signal.SIGTERM


class Guard:
    """A process that ends all others with a mark when the one that started it is gone.

    It waits for the end of its input, which the system closes however that process ends.

    Parameters
    ----------
    mark : str
    home : str
        A directory that is removed then.
    """

    def __init__(self, mark: str, home: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603  # our own command line, no shell
            [sys.executable, "-m", __name__, mark, home], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip

    def dismiss(self) -> None:
        """Let it do its work, which should be none, and go."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def _marked(mark: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _carries(process, mark)]


def _carries(process: psutil.Process, mark: str) -> bool:
    try:
        return bool(process.environ().get(MARK) == mark)
    except (psutil.Error, OSError):
        return False


def _keep_watch(mark: str, home: str) -> None:
    sys.stdin.read()
    end(mark)
    shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    _keep_watch(*sys.argv[1:])
