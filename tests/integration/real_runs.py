"""Names and tools that the integration tests share."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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


@contextmanager
def marked(home: Path) -> Iterator[dict[str, str]]:
    """Give an environment whose processes can be told from all others, and end them afterwards."""
    mark = uuid.uuid4().hex
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    homes = {"HOME": str(home), "FLWR_HOME": str(home / "flwr")}
    path = {"PATH": os.pathsep.join([str(BIN), os.environ["PATH"]])}
    try:
        yield os.environ | quiet | homes | path | {MARK: mark, "RAY_USAGE_STATS_ENABLED": "0"}
    finally:
        for process in processes(mark):
            process.kill()


def rounds_of(record: Path) -> list[dict[str, Any]]:
    """Return the rounds that a record has by now; the last line may still be being written."""
    path = record / "rounds.jsonl"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
