"""Names and tools that the integration tests share."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
MARK = "FEDEAS_TEST"  # in the environment of every process of a test

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def processes(mark: str) -> list[psutil.Process]:
    """Return the living processes whose environment carries the mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found
