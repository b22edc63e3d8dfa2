"""Arrays off the wire: the bytes have to be what they say they are."""

import struct

import numpy as np
import pytest
from flwr.app import Array
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as shapes

from fedeas_app.arrays import decode

TYPES = st.sampled_from(["<f4", "<f8", "<i8", "|u1", "|b1", "<f2"])


@given(shapes.arrays(TYPES, shapes.array_shapes(min_dims=0, min_side=0)), st.booleans())
def test_what_flower_encodes_is_decoded_bit_for_bit(values, by_column):
    values = np.asarray(values, order="F" if by_column else "C")
    found = decode(Array(values))
    assert (found.dtype, found.shape) == (values.dtype, values.shape)
    assert found.tobytes() == values.tobytes()


def header(text, payload=b""):
    data = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(data)) + data + payload


def forged(data, stype="numpy.ndarray"):
    return Array(dtype="float32", shape=(2,), stype=stype, data=data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "header is damaged"),
        (b"\x93NUMPY\x03\x00" + b"\0" * 20, "format"),
        (
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (10**9,)}"),
            "header is damaged",
        ),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}"), "0 bytes"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", b"1234"), "4 bytes"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", b"12345"), "5 bytes"),
        (header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"12345678"), "8 bytes"),
        (header("{'descr': '<U0', 'fortran_order': False, 'shape': (7,)}"), "0 bytes"),
        (header("{'descr': ("), "header is damaged"),
        (header("__import__('os')"), "header is damaged"),
        (header("(" * 110), "header is damaged"),
    ],
)
def test_what_is_damaged_or_forged_is_an_error_and_takes_no_memory(data, text):
    with pytest.raises(ValueError, match=text):
        decode(forged(data))


def test_another_form_is_an_error():
    with pytest.raises(ValueError, match="it is a 'pickle'"):
        decode(forged(b"", stype="pickle"))
