"""A dataset as its source stores it: what the readers of each kind of source hand over."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedeas_app.data.decode import NamedImage

# What stands in for a test split, best first.
TEST_NAMES = ("test", "validation", "valid", "val")


@dataclass(frozen=True)
class Table:
    """One split as its source stores it: labels of any kind, and images by row number."""

    labels: NDArray[Any]
    images: Callable[[NDArray[np.int64]], Iterator[NamedImage]]


@dataclass(frozen=True)
class Source:
    """A dataset as stored. ``class_names`` is None when the labels themselves are the names."""

    train: Table
    test: Table | None
    class_names: tuple[str, ...] | None
