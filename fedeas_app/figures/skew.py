"""Where the imbalance of a federation is, and what removes it: numbers, no drawing."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedeas_app import budget

FloatArray = NDArray[np.float64]

_STEPS = 40  # values of β on a curve
_LARGEST = float(budget.MAX_SAMPLES)  # as a β
_BEYOND = 1.15  # a curve goes on until it makes this many times what full balancing makes


def cumulative_shares(parts: ArrayLike, whole: float | None = None) -> FloatArray:
    """Return what the clients that hold most hold together, shape (K + 1,).

    Parameters
    ----------
    parts : array_like, shape (K,)
        What each client holds, such as (M_k / M) (1 - H~_k), at least 0.
    whole : float, optional
        What shares are of; the sum of the parts if left out.

    Returns
    -------
    ndarray, shape (K + 1,)
        Entry n is the share of the n clients that hold most; the first is 0. All zero where
        there is nothing to share.
    """
    ordered = np.sort(np.asarray(parts, dtype=np.float64))[::-1]
    total = float(ordered.sum()) if whole is None else whole
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    return sums / total if total > 0 else np.zeros_like(sums)


def removed(real: ArrayLike, synthetic: ArrayLike) -> float:
    """Return 1 - I(real + synthetic) / I(real), the share of the imbalance that is gone.

    Parameters
    ----------
    real, synthetic : array_like of int, shape (K, C)

    Returns
    -------
    float
        At most 1; below 0 where the images made it worse, and 0 where there was no imbalance.
    """
    before = budget.imbalance(real)
    after = budget.imbalance(np.asarray(real) + np.asarray(synthetic))
    return 1.0 - after / before if before > 0 else 0.0


class Returns(NamedTuple):
    """What rising values of β cost and remove, each of shape (B,)."""

    betas: FloatArray
    made: FloatArray
    removed: FloatArray


def returns(real: ArrayLike, betas: ArrayLike) -> Returns:
    """Return how many images FedEAS makes for each β, and which share of I that removes.

    Parameters
    ----------
    real : array_like of int, shape (K, C)
    betas : array_like, shape (B,)
    """
    values = np.asarray(betas, dtype=np.float64)
    tables = [budget.allocate(real, "fedeas", beta=float(beta)) for beta in values]
    return Returns(
        values,
        np.array([table.sum() for table in tables], dtype=np.float64),
        np.array([removed(real, table) for table in tables]),
    )


def betas_beyond_full(real: ArrayLike) -> FloatArray:
    """Return rising values of β from 0 to where FedEAS makes more than full balancing.

    They are dense near 0, where images bring most, and end at the largest β that there is where
    that makes less. Only 0 where no β makes an image.
    """
    enough = _BEYOND * int(budget.allocate(real, "full").sum())
    if enough == 0:
        return np.zeros(1)
    high = 1.0
    while high < _LARGEST and budget.beta_sums(real, high)[0] < enough:
        high = min(1.25 * high, _LARGEST)
    steps: FloatArray = high * np.linspace(0.0, 1.0, _STEPS) ** 2
    return steps
