"""FedAvg's weights."""

import numpy as np
import pytest

from fedeas_app.strategies.report import Participant


def weigh(begin, sizes):
    participants = [Participant(k, n, 0.1 * k, 1.0) for k, n in enumerate(sizes)]
    return begin(strategy="fedavg").strategy.weigh(participants)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([5], [1.0]), ([1, 3], [0.25, 0.75]), ([100, 50, 850], [0.1, 0.05, 0.85])],
)
def test_weights_are_shares_of_the_examples(begin, sizes, expected):
    weights, scores = weigh(begin, sizes)
    assert weights == pytest.approx(expected)
    assert scores.tolist() == [1.0] * len(sizes)


def test_weights_sum_to_one_for_sizes_beyond_float32(begin):
    weights, _ = weigh(begin, [2**53, 1, 2**40 + 1])
    assert weights.dtype == np.float64
    assert weights.sum() == pytest.approx(1.0, abs=1e-15)
    assert (weights > 0).all()
