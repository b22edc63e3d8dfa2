"""The network on its way: in one piece, at half of its precision."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from fedeas_app.generators.federated.transfer import (
    NETWORK,
    joined,
    moved,
    parted,
    restored,
    returned,
    rounded,
)


def record(*values, dtype=np.float32):
    return ArrayRecord({"w": Array(np.array(values, dtype))})


def test_at_full_precision_nothing_is_touched():
    arrays = record(0.1)
    assert rounded(arrays, "float32") is arrays
    assert joined(arrays)[NETWORK].numpy().tolist() == arrays["w"].numpy().tolist()
    assert restored(returned(joined(arrays), joined(record(5))), record(5), "float32") == arrays


def test_at_half_it_is_half_the_bytes_of_what_the_server_reckons_with():
    kept = rounded(record(0.1, 1 / 3), "float16")
    sent = joined(kept, "float16")[NETWORK].numpy()
    assert sent.nbytes == 4
    assert sent.tolist() == np.array([0.1, 1 / 3], np.float16).tolist()
    assert kept["w"].dtype == "float32"
    assert kept["w"].numpy().tolist() == sent.tolist()


def test_a_client_sends_at_half_how_far_it_went_which_keeps_small_steps():
    """Around 1, float16 itself knows no step below 2^-11."""
    w_t = record(1.0, 1.0, 1.0)
    sent, trained = joined(w_t, "float16"), record(1 + 2**-20, 1 - 2**-13, 1.0)
    back = returned(joined(trained), sent)
    assert back[NETWORK].numpy().tolist() == [2**-20, -(2**-13), 0]
    assert back[NETWORK].dtype == "float16"
    assert restored(back, w_t, "float16") == trained


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_an_answer_of_another_precision_is_refused(dtype):
    with pytest.raises(ValueError, match=f"network is of {np.dtype(dtype)}, not float16"):
        restored(ArrayRecord({NETWORK: Array(np.zeros(1, dtype))}), record(1.0), "float16")


def test_steps_smaller_than_the_rounding_add_up():
    """Around 1, float16 knows steps of 2^-10; here are 8 rounds of a step of 2^-14 each."""
    arrays = record(1.0 + 2**-12)  # it rounds to 1
    for _ in range(8):
        sent = rounded(arrays, "float16")
        assert sent["w"].numpy() == np.float16(arrays["w"].numpy())
        arrays = moved(arrays, sent, record(*(sent["w"].numpy() + 2**-14)))
    assert arrays["w"].numpy().tolist() == [1.0 + 2**-12 + 8 * 2**-14]
    assert arrays["w"].dtype == "float32"


def test_what_did_not_move_stays_to_the_bit():
    arrays = record(0.1, -7.7)
    sent = rounded(arrays, "float16")
    assert moved(arrays, sent, sent)["w"].numpy().tolist() == arrays["w"].numpy().tolist()


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
    one = joined(network(dtype), np.dtype(dtype).name)
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
