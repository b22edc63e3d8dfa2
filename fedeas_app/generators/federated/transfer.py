"""The network on its way, at half of its precision where that is wanted."""

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

BYTES = {"float32": 4, "float16": 2}


def packed(arrays: ArrayRecord, precision: str) -> ArrayRecord:
    """Return arrays as they travel."""
    if precision == "float32":
        return arrays
    return as_types(arrays, dict.fromkeys(arrays, precision))


def as_types(arrays: ArrayRecord, types: dict[str, str]) -> ArrayRecord:
    """Return arrays of these types, by name."""
    return ArrayRecord({name: _as_type(array, types[name]) for name, array in arrays.items()})


def _as_type(array: Array, dtype: str) -> Array:
    return array if array.dtype == dtype else Array(array.numpy().astype(dtype))


def moved(arrays: ArrayRecord, sent: ArrayRecord, merged: ArrayRecord) -> ArrayRecord:
    """Return the arrays, moved as far as what was sent out was: w + (w' − rounded w).

    What rounding takes away at sending is not lost to the server, so that small steps add up.
    """
    return ArrayRecord(
        {name: Array(_moved(a, sent[name], merged[name])) for name, a in arrays.items()}
    )


def _moved(array: Array, sent: Array, merged: Array) -> NDArray[np.generic]:
    old = array.numpy()
    step = merged.numpy().astype(np.float64) - sent.numpy().astype(np.float64)
    return np.asarray(old + step, old.dtype)
