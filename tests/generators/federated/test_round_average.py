"""The exponential mean over rounds, against its closed form."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from hypothesis import given
from hypothesis import strategies as st

from fedeas_app.generators.federated.average import RoundAverage
from fedeas_app.strategies.state import StrategyState

VALUES = st.lists(st.floats(-100, 100), min_size=1, max_size=8)


def record(value, dtype=np.float32):
    return ArrayRecord({"w": Array(np.full(2, value, dtype))})


def mean_of(values, decay, dtype=np.float64):
    average = RoundAverage(decay)
    for value in values:
        average.add(record(value, dtype))
    return average.arrays()["w"].numpy()


@given(VALUES, st.floats(0, 0.99))
def test_it_is_the_weighted_mean_of_the_rounds(values, decay):
    weights = np.array([decay ** (len(values) - 1 - i) for i in range(len(values))])
    wanted = (weights * values).sum() / weights.sum()
    assert mean_of(values, decay) == pytest.approx([wanted] * 2, abs=1e-9)


def test_without_decay_it_is_the_last_round():
    assert mean_of([3.0, 5.0, 0.1], 0.0, np.float32).tolist() == [np.float32(0.1)] * 2


def test_it_stays_in_the_type_of_the_network():
    assert mean_of([1.0, 2.0], 0.5, np.float16).dtype == np.float16


def test_without_a_round_there_is_none():
    average = RoundAverage(0.8)
    assert not average
    average.add(record(1.0))
    assert average


def test_it_goes_on_from_a_state_and_leaves_the_strategys_alone():
    first, second = RoundAverage(0.7), RoundAverage(0.7)
    first.add(record(1.0))
    first.add(record(4.0))
    own = StrategyState(ArrayRecord({"w": Array(np.ones(3))}), {"key": "k", "accepted": {}})
    rest = second.taken_from(first.into(own))
    assert rest.values == own.values
    assert list(rest.arrays) == ["w"]
    assert rest.arrays["w"].numpy().tolist() == [1.0, 1.0, 1.0]
    for average in (first, second):
        average.add(record(-2.0))
    assert first.arrays()["w"].numpy().tolist() == second.arrays()["w"].numpy().tolist()
