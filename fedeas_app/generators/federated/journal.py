"""What a run's directory says of the generator's rounds: ``generator.jsonl``, a line a round."""

import json
import os
import time
from pathlib import Path
from typing import Final

from fedeas_app.files import write_text
from fedeas_app.strategies.report import RoundReport

JOURNAL: Final = "generator.jsonl"
_LIMITS: Final = {"norms": "norm", "clipped-by": "clipped-by"}


def begun(directory: Path) -> bool:
    """Whether rounds of the generator were gone through in a run's directory, finished or not."""
    return (directory / JOURNAL).is_file()


class Journal:
    """The lines of the rounds so far.

    Parameters
    ----------
    directory : Path
        The run's.
    finished : int
        The round after which the run goes on; what was written of later ones is dropped.
    """

    def __init__(self, directory: Path, finished: int) -> None:
        self._path = directory / JOURNAL
        self._started = time.perf_counter()
        if self._path.is_file():
            lines = self._path.read_text(encoding="utf-8").splitlines(keepends=True)
            write_text(self._path, "".join(lines[:finished]))

    def add(self, server_round: int, report: RoundReport) -> None:
        """Write down a round: its loss, seconds, who took part with what weight, who failed.

        Where updates have a limit, also the norm of each and what it was multiplied by.
        """
        now = time.perf_counter()
        line = {
            "round": server_round,
            "loss": report.train_loss,
            "seconds": now - self._started,
            "weights": {str(p.partition): p.weight for p in report.participants},
            "failures": {str(partition): text for partition, text in report.failures.items()},
            **_limits(report),
        }
        self._started = now
        with open(self._path, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
            stream.flush()
            os.fsync(stream.fileno())  # before a checkpoint that is of this round


def _limits(report: RoundReport) -> dict[str, dict[str, float]]:
    told = {
        name: {str(p.partition): p.details[key] for p in report.participants if key in p.details}
        for name, key in _LIMITS.items()
    }
    return {name: values for name, values in told.items() if values}
