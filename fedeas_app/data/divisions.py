"""Which rows of a dataset without a test split are for training, and which for testing."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedeas_app import seeds
from fedeas_app.errors import UserError

Labels = NDArray[Any]
Rows = NDArray[np.int64]

TEST_SHARE = 0.2
# Not the run's seed: the shipped generator has seen the training part, whatever the run.
HOLD_OUT_SEED = 20


class Division(NamedTuple):
    """A way to divide rows.

    Attributes
    ----------
    name : str
        Part of the key of what is cached.
    rows : callable
        Takes the labels as stored, so that a class list changes nothing; returns the rows for
        training and those for testing, ascending.
    """

    name: str
    rows: Callable[[Labels], tuple[Rows, Rows]]


def hold_out(labels: Labels) -> tuple[Rows, Rows]:
    """Divide rows into training and test rows: a fifth of each class, always the same.

    Raises
    ------
    UserError
        There are too few images.
    """
    from sklearn.model_selection import train_test_split

    try:
        train, test = train_test_split(
            np.arange(len(labels)),
            test_size=TEST_SHARE,
            stratify=labels,
            random_state=HOLD_OUT_SEED,
        )
    except ValueError as error:
        raise UserError(
            f"The dataset has no test split, and a fifth of its {len(labels)} images cannot be "
            "held out with every class in both parts; add a test split or more images of each "
            "class."
        ) from error
    return np.sort(train).astype(np.int64), np.sort(test).astype(np.int64)


def hold_out_where_possible(labels: Labels) -> tuple[Rows, Rows]:
    """Divide rows likewise, but leave classes of one or two images to training.

    A fifth of each class, rounded. What is drawn from a class depends on its name and its number
    of images alone.
    """
    test = [_drawn(np.flatnonzero(labels == c), str(c)) for c in np.unique(labels)]
    chosen = np.sort(np.concatenate([np.empty(0, np.int64), *test]))
    return np.setdiff1d(np.arange(len(labels)), chosen), chosen


def _drawn(rows: Rows, name: str) -> Rows:
    rng = seeds.numpy_rng("hold-out", HOLD_OUT_SEED, name)
    return rng.choice(rows, round(TEST_SHARE * len(rows)), replace=False)


def _all_first(labels: Labels) -> tuple[Rows, Rows]:
    return np.arange(len(labels)), np.empty(0, np.int64)


def _all_last(labels: Labels) -> tuple[Rows, Rows]:
    return np.empty(0, np.int64), np.arange(len(labels))


FIFTH = Division("fifth", hold_out)
FIFTH_WHERE_POSSIBLE = Division("fifth-where-possible", hold_out_where_possible)
ALL_FOR_TRAINING = Division("all-for-training", _all_first)
ALL_FOR_TESTING = Division("all-for-testing", _all_last)
