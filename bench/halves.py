"""Split a dataset's training part in halves: one for the clients, one as the pool to draw from.

Writes ``clients`` (with the test part) and ``pool``, folders of parquet files for ``dataset`` and
``pool-dataset``. Every class is split evenly, at random; no image is in both.
"""

from pathlib import Path
from typing import Annotated

import datasets
import numpy as np
import typer

TRAIN, TEST = "train", "test"


def main(
    source: Annotated[Path, typer.Argument(help="A folder of train-*.parquet and test-*.parquet.")],
    out: Annotated[Path, typer.Argument(help="The folder that gets `clients` and `pool`.")],
    label: str = "label",
    seed: int = 0,
) -> None:
    """Write both halves."""
    files = {
        part: [str(f) for f in sorted(source.rglob(f"{part}*.parquet"))] for part in (TRAIN, TEST)
    }
    parts = datasets.load_dataset("parquet", data_files=files)
    first, second = halves(np.array(parts[TRAIN][label]), seed)
    write(parts[TRAIN].select(first), out / "clients", TRAIN)
    write(parts[TEST], out / "clients", TEST)
    write(parts[TRAIN].select(second), out / "pool", TRAIN)


def halves(labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of either half, in their order; an odd image goes to the second."""
    rng = np.random.default_rng(seed)
    first = np.zeros(len(labels), bool)
    for value in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == value))
        first[rows[: len(rows) // 2]] = True
    return np.flatnonzero(first), np.flatnonzero(~first)


def write(rows: datasets.Dataset, directory: Path, part: str) -> None:
    """Write one part and say how large it is."""
    directory.mkdir(parents=True, exist_ok=True)
    rows.to_parquet(directory / f"{part}-00000-of-00001.parquet")
    print(f"{directory}: {len(rows):,} images for {part}")


if __name__ == "__main__":
    typer.run(main)
