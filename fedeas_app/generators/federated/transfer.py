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


def rounded(arrays: ArrayRecord, precision: str) -> ArrayRecord:
    """Return arrays, each of its own type, with the values that travel at this precision."""
    if precision == "float32":
        return arrays
    return ArrayRecord({name: _rounded(array, precision) for name, array in arrays.items()})


def _rounded(array: Array, precision: str) -> Array:
    return Array(array.numpy().astype(precision).astype(array.dtype))


def joined(arrays: ArrayRecord, precision: str = "float32") -> ArrayRecord:
    """Return arrays as one of this precision: their values one after the other."""
    values = [array.numpy().ravel() for array in arrays.values()]
    return ArrayRecord({NETWORK: Array(np.concatenate(values).astype(precision, copy=False))})


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


def returned(trained: ArrayRecord, received: ArrayRecord) -> ArrayRecord:
    """Return what a client sends back: its weights or, at half precision, how far they moved.

    Around 1, float16 knows steps of 2^-10. Of a difference it keeps eleven bits down to 2^-14, and
    below that all that is coarser than 2^-24.

    Parameters
    ----------
    trained : ArrayRecord
        The network in one piece, of float32.
    received : ArrayRecord
        The same as it came; its type is that of the answer.
    """
    w_t = received[NETWORK].numpy()
    if w_t.dtype != np.float16:
        return trained
    return ArrayRecord({NETWORK: Array((trained[NETWORK].numpy() - w_t).astype(np.float16))})


def restored(arrays: ArrayRecord, sent: ArrayRecord, precision: str) -> ArrayRecord:
    """Return the weights of a client, made of what `returned` has made of them.

    Parameters
    ----------
    arrays : ArrayRecord
        As they came back.
    sent : ArrayRecord
        The network as the client received it, of float32.
    precision : str
        At which both travelled.

    Raises
    ------
    ValueError
        They are of another length or type.
    """
    parts = parted(arrays, sent)
    if precision == "float32":
        return parts
    if arrays[NETWORK].dtype != precision:
        raise ValueError(f"{NETWORK} is of {arrays[NETWORK].dtype}, not {precision}")
    return ArrayRecord({name: Array(_sum(sent[name], part)) for name, part in parts.items()})


def _sum(w_t: Array, delta: Array) -> NDArray[np.generic]:
    return np.asarray(w_t.numpy() + delta.numpy(), w_t.dtype)


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
