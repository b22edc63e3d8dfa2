"""The benchmarks against the floor, one after the other; a failure of one costs no other's table.

What needs coloured images is left out where no data set is named.

    python bench/suite.py --quick
    python bench/suite.py --dataset ~/cifar10
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from measuring import Dataset, command

HERE = Path(__file__).parent
NEEDS_IMAGES = ("flower_style.py",)
TAKES_IMAGES = ("rounds.py", "oui.py", "compression.py", *NEEDS_IMAGES)
SCRIPTS = (
    "start.py", "rounds.py", "flower_style.py", "aggregation.py", "oui.py", "compression.py",
)  # fmt: skip
# What is the same again where all is small: many clients, and more replies than memory holds.
LARGE = (
    "rounds.py --clients 100 --rounds 3 --repeats 2",
    "aggregation.py --replies 10000 --model cnn --but-not flower --repeats 1",
)


def main(
    dataset: Dataset = "",
    quick: bool = False,
) -> None:
    """Run them all; fail at the end if one has failed."""
    failed = [line[0] for line in lines(dataset, quick) if not runs(line)]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def lines(dataset: str, quick: bool) -> Iterator[list[str]]:
    """Yield each benchmark with its options."""
    for script, *options in map(str.split, SCRIPTS if quick else SCRIPTS + LARGE):
        if dataset or script not in NEEDS_IMAGES:
            images = ["--dataset", dataset] if dataset and script in TAKES_IMAGES else []
            yield [script, *images, *options, *(["--quick"] if quick else [])]


def runs(line: list[str]) -> bool:
    """Run one under a heading; return whether it came to its end."""
    print(f"\n## python bench/{' '.join(line)}\n", flush=True)
    begin = time.perf_counter()
    status = subprocess.run([sys.executable, HERE / line[0], *line[1:]], check=False).returncode
    end = f"failed with status {status} after" if status else "took"
    print(f"\n{line[0]} {end} {time.perf_counter() - begin:.0f} s", flush=True)
    return status == 0


if __name__ == "__main__":
    command(main)
