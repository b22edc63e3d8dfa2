"""Arrays that came over the wire, decoded without trust in what they say of themselves."""

import io
from math import prod
from typing import Any

import numpy as np
from flwr.app import Array
from numpy.typing import NDArray

from fedeas_app.reading import HEADER_ERRORS

_NUMPY = "numpy.ndarray"  # how Flower names the only form that it makes


def decode(array: Array) -> NDArray[Any]:
    """Return an array of numbers as a read-only view of what arrived.

    Nothing is allocated for a header's promise: the bytes have to be there.

    Raises
    ------
    ValueError
        It is damaged, of another format, or holds objects.
    """
    if array.stype != _NUMPY:
        raise ValueError(f"it is a {array.stype!r}, not a {_NUMPY!r}")
    stream = io.BytesIO(array.data)
    shape, by_column, dtype = _header(stream)
    held = len(array.data) - stream.tell()
    if dtype.hasobject or dtype.itemsize == 0 or prod(shape) * dtype.itemsize != held:
        raise ValueError(f"{held} bytes are no {dtype} of shape {list(shape)}")
    flat = np.frombuffer(array.data, dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if by_column else "C")


def _header(stream: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):  # what numpy writes unless names or shapes are enormous
            return np.lib.format.read_array_header_1_0(stream)
    except HEADER_ERRORS as error:
        raise ValueError(f"its header is damaged ({type(error).__name__})") from error
    raise ValueError(f"it is of numpy's format {version}, not (1, 0)")
