"""Arrays that came over the wire, decoded without trust in what they say of themselves."""

import io
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from flwr.app import Array
from numpy.typing import NDArray

from fedeas_app.reading import HEADER_ERRORS

_NUMPY = "numpy.ndarray"  # how Flower names the only form that it makes
_MAGIC = 10  # bytes before the header; the last two of them are its length


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
    begin = _MAGIC + int.from_bytes(array.data[_MAGIC - 2 : _MAGIC], "little")
    shape, by_column, dtype = _header(array.data[:begin])
    held = len(array.data) - begin
    if dtype.hasobject or dtype.itemsize == 0 or prod(shape) * dtype.itemsize != held:
        raise ValueError(f"{held} bytes are no {dtype} of shape {list(shape)}")
    flat = np.frombuffer(array.data, dtype, offset=begin)
    return flat.reshape(shape, order="F" if by_column else "C")


@lru_cache(maxsize=512)  # all replies of a run have the same ones, and numpy takes long to read it
def _header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):  # what numpy writes unless names or shapes are enormous
            return np.lib.format.read_array_header_1_0(stream)
    except HEADER_ERRORS as error:
        raise ValueError(f"its header is damaged ({type(error).__name__})") from error
    raise ValueError(f"it is of numpy's format {version}, not (1, 0)")
