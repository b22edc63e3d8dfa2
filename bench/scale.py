"""Seconds of a round beside training, against what docs/scale.md models: many registered clients.

The clients hold an image or two each, so that nearly all of a round is messages, Flower's looks for
them, and averaging. The seconds of local training and evaluation that are left are part of both.

    python bench/scale.py
    python bench/scale.py --registered 1000 --cohorts 10,100,1000
"""

import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measuring import Dataset, command, megabytes, print_table, run, tool

from fedeas_app.processes import cores

# The constants of docs/scale.md, in seconds: a client's message beside its training, with Flower's
# part of it, which workers share; and a look at a node for each message that is delivered.
MESSAGE, LOOK = 0.037, 6e-6


def main(
    registered: int = 1000,
    cohorts: str = "10,100,1000",
    dataset: Dataset = "digits",
    rounds: int = 3,
) -> None:
    """Print measured and modelled seconds for each cohort."""
    head = ("registered", "cohort", "a round (s)", "modelled (s)", "preparation (s)", "memory")
    print_table(head, rows(registered, [int(size) for size in cohorts.split(",")], dataset, rounds))


def rows(
    registered: int, cohorts: list[int], dataset: str, rounds: int
) -> Iterator[tuple[str, str, str, str, str, str]]:
    """Run each cohort and yield its line."""
    for cohort in cohorts:
        with tempfile.TemporaryDirectory(prefix="fedeas-bench-") as place:
            keys = {
                "dataset": dataset, "partitioner": "iid", "min-partition-size": 1,
                "num-clients": registered,
                "fraction-train": cohort / registered, "rounds": rounds, "strategy": "fedavg",
                "policy": "none", "device": "cpu", "output-dir": place, "run-name": "run",
            }  # fmt: skip
            options = [f"--set={key}={value}" for key, value in keys.items()]
            finished = run([tool("fedeas"), "run", "digits", *options])
            seconds, preparation = read(Path(place) / "run")
        yield (
            f"{registered:,}", f"{cohort:,}", f"{seconds:.1f}",
            f"{modelled(registered, cohort):.1f}", f"{preparation:.1f}", megabytes(finished.peak),
        )  # fmt: skip


def read(record: Path) -> tuple[float, float]:
    """Return the median seconds of a round after the first, and those of the preparation."""
    lines = [json.loads(line) for line in (record / "rounds.jsonl").read_text().splitlines()]
    summary = json.loads((record / "summary.json").read_text())
    later = [line["seconds"] for line in lines if line["round"] > 1]
    return statistics.median(later), summary["seconds"]["prepare"]


def modelled(registered: int, cohort: int) -> float:
    """Return what the constants say of a round's messages and Flower's looks for them."""
    return cohort * (MESSAGE / cores() + registered * LOOK)


if __name__ == "__main__":
    command(main)
