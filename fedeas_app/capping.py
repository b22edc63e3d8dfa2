"""A limit to the share that any client has of a round."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

_SLACK = 1e-9  # within it, n·largest is 1: rounding must not leave a remainder that nobody can hold


def cap(weights: ArrayLike, largest: float) -> NDArray[np.float64]:
    """Return weights none of which is above `largest`; the excess goes to the others.

    Those above are set to `largest`, and the others share what is left in proportion to their
    weights, until none is above (ours). Where n clients cannot hold 1 together, n·largest ≤ 1, all
    weigh 1/n.

    Parameters
    ----------
    weights : array_like, shape (n,)
        Not negative; they sum to 1.
    largest : float
        In (0, 1].

    Returns
    -------
    ndarray, shape (n,)
        They sum to 1, in the same order of size; the weights themselves where none is above.
    """
    given = np.asarray(weights, np.float64)
    if len(given) * largest <= 1 + _SLACK:
        return np.full(len(given), 1 / len(given))
    capped, above = given.copy(), given > largest
    while above.any():
        capped = np.where(capped >= largest, largest, capped)
        below = capped < largest
        left = 1 - largest * np.count_nonzero(~below)
        capped[below] = left * _in_proportion(given[below])
        above = capped > largest
    return capped


def _in_proportion(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shares of 1; even ones where all weights are 0."""
    total = weights.sum()
    return weights / total if total > 0 else np.full(len(weights), 1 / len(weights))
