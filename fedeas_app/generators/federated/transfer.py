"""The network on its way: in one piece, and at half of its precision where that is wanted.

Flower moves every array of a message by itself, as two objects, and a SuperLink writes each of them
into its database. A network of 145 arrays would be some 600 requests for each client in each round.
"""

from math import prod
from typing import Final

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from fedeas_app.arrays import decode

NETWORK: Final = "network"
"""The name of the one array that travels."""
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


def joined(arrays: ArrayRecord) -> ArrayRecord:
    """Return arrays, all of one type, as one: their values one after the other."""
    values = [array.numpy().ravel() for array in arrays.values()]
    return ArrayRecord({NETWORK: Array(np.concatenate(values))})


def parted(arrays: ArrayRecord, like: ArrayRecord) -> ArrayRecord:
    """Take apart what `joined` has made, into arrays of the names and shapes of others.

    Raises
    ------
    ValueError
        It is not that, or of another length.
    """
    if list(arrays) != [NETWORK]:
        raise ValueError("the names of its arrays are not those that were sent")
    values, sizes = decode(arrays[NETWORK]), [prod(array.shape) for array in like.values()]
    if values.shape != (sum(sizes),):
        raise ValueError(f"{NETWORK} is of shape {list(values.shape)}, not [{sum(sizes)}]")
    parts = zip(like.items(), np.split(values, np.cumsum(sizes)[:-1]), strict=True)
    return ArrayRecord({name: Array(part.reshape(array.shape)) for (name, array), part in parts})


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
