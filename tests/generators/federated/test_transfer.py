"""The network on its way: in one piece, at half of its precision."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from fedeas_app.errors import UserError
from fedeas_app.generators.federated.transfer import NETWORK, joined, moved, packed, parted


def record(*values, dtype=np.float32):
    return ArrayRecord({"w": Array(np.array(values, dtype))})


def test_at_full_precision_nothing_is_touched():
    arrays = record(0.1)
    assert packed(arrays, "float32") is arrays


def test_at_half_it_is_half_the_bytes():
    sent = packed(record(0.1, 1 / 3), "float16")["w"].numpy()
    assert sent.nbytes == 4
    assert sent.tolist() == np.array([0.1, 1 / 3], np.float16).tolist()


def test_steps_smaller_than_the_rounding_add_up():
    """Around 1, float16 knows steps of 2^-10; here are 8 rounds of a step of 2^-10 each."""
    arrays = record(1.0 + 2**-12)  # it rounds to 1
    for _ in range(8):
        sent = packed(arrays, "float16")
        assert sent["w"].numpy() == np.float16(arrays["w"].numpy())
        arrays = moved(arrays, sent, record(*(sent["w"].numpy() + 2**-10), dtype=np.float16))
    assert arrays["w"].numpy().tolist() == [1.0 + 2**-12 + 8 * 2**-10]
    assert arrays["w"].dtype == "float32"


def test_what_did_not_move_stays_to_the_bit():
    arrays = record(0.1, -7.7)
    sent = packed(arrays, "float16")
    assert moved(arrays, sent, sent)["w"].numpy().tolist() == arrays["w"].numpy().tolist()


def test_server_steps_need_more(configure):
    with pytest.raises(UserError, match="the server steps of generator-strategy 'fedadam'"):
        configure(generator="federated", generator_transfer="float16", generator_strategy="fedadam")


SHAPES = {"a": (2, 3), "scalar": (), "b": (4,), "none": (0, 2)}  # 11 numbers


def network(dtype=np.float32):
    values = {
        name: np.arange(np.prod(shape)) + 10 * n for n, (name, shape) in enumerate(SHAPES.items())
    }
    return ArrayRecord(
        {name: Array(v.reshape(SHAPES[name]).astype(dtype)) for name, v in values.items()}
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_it_travels_as_one_array_and_is_what_it_was(dtype):
    one = joined(network(dtype))
    assert list(one) == [NETWORK]
    assert one[NETWORK].numpy().tolist() == [0, 1, 2, 3, 4, 5, 10, 20, 21, 22, 23]
    assert parted(one, network()) == network(dtype)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({}, "the names of its arrays are not"),
        ({"w": Array(np.zeros(11, np.float32))}, "the names of its arrays are not"),
        ({NETWORK: Array(np.zeros(10, np.float32))}, r"is of shape \[10\], not \[11\]"),
        ({NETWORK: Array(np.zeros((1, 11), np.float32))}, r"is of shape \[1, 11\], not \[11\]"),
        ({NETWORK: Array("float32", (11,), "numpy.ndarray", b"?" * 44)}, "header is damaged"),
    ],
)
def test_what_is_no_network_is_refused(arrays, words):
    with pytest.raises(ValueError, match=words):
        parted(ArrayRecord(arrays), network())
