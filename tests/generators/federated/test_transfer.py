"""The network at half of its precision on the way."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from fedeas_app.errors import UserError
from fedeas_app.generators.federated.transfer import moved, packed


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
