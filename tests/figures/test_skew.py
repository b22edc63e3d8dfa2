"""Concentration and diminishing returns against values worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from made_up_runs import make_run

from fedeas_app import budget
from fedeas_app.figures import diminishing
from fedeas_app.figures.picture import Picture
from fedeas_app.figures.skew import betas_beyond_full, cumulative_shares, removed, returns

COUNTS = arrays(np.int64, st.tuples(st.integers(1, 5), st.integers(2, 5)),
                elements=st.integers(0, 60))  # fmt: skip


def test_the_clients_that_hold_most_come_first():
    np.testing.assert_allclose(cumulative_shares([1.0, 6.0, 3.0]), [0, 0.6, 0.9, 1.0])


def test_shares_can_be_of_something_larger():
    np.testing.assert_allclose(cumulative_shares([1.0, 1.0], 8.0), [0, 0.125, 0.25])


def test_nothing_to_share_is_zero():
    np.testing.assert_array_equal(cumulative_shares([0.0, 0.0]), [0, 0, 0])


@given(arrays(np.float64, st.integers(1, 8), elements=st.floats(0, 1)))
def test_shares_rise_ever_more_slowly_to_one(parts):
    shares = cumulative_shares(parts)
    if parts.sum() > 1e-9:
        assert shares[0] == 0
        assert shares[-1] == pytest.approx(1)
        steps = np.diff(shares)
        assert (steps >= -1e-12).all()
        assert (np.diff(steps) <= 1e-12).all()


def test_what_is_removed_by_hand():
    # Client 0 has one of two classes (1 − H̃ = 1), client 1 both (0): I = 4/8. Four images make
    # client 0 even, so nothing is left. One image: H̃ = H(4/5), and I = 5/9 of 1 − H̃.
    real = [[4, 0], [2, 2]]
    assert removed(real, [[0, 4], [0, 0]]) == pytest.approx(1.0)
    entropy = -(0.8 * np.log2(0.8) + 0.2 * np.log2(0.2))
    expected = 1 - (5 / 9 * (1 - entropy)) / 0.5
    assert removed(real, [[0, 1], [0, 0]]) == pytest.approx(expected)


def test_more_skew_is_less_than_nothing_removed():
    assert removed([[2, 1]], [[5, 0]]) < 0


def test_without_imbalance_nothing_is_removed():
    assert removed([[3, 3]], [[1, 0]]) == 0.0


def test_returns_by_hand():
    # N = 8, C = 2, 1 − H̃ = 1: b = ⌊√4 β⌋ = 2β, all for the second class; full is at β = 4.
    curve = returns([[8, 0]], [0, 1, 4])
    np.testing.assert_array_equal(curve.made, [0, 2, 8])
    entropy = -(0.8 * np.log2(0.8) + 0.2 * np.log2(0.2))
    np.testing.assert_allclose(curve.removed, [0, entropy, 1], atol=1e-12)


@given(COUNTS)
def test_betas_rise_from_zero_to_more_than_full_balancing(real):
    betas = betas_beyond_full(real)
    made = returns(real, betas).made
    assert betas[0] == 0
    assert made[0] == 0
    assert (np.diff(betas) > 0).all()
    full = int(budget.allocate(real, "full").sum())
    assert made[-1] >= full
    assert len(betas) == 1 if full == 0 else made[-1] > full


def test_a_client_as_good_as_balanced_ends_at_the_largest_beta():
    # 1 - H~ of 5,000,000 and 5,000,001 images is about 1e-15: no beta up to 2^53 makes the one
    # image that full balancing does.
    betas = betas_beyond_full([[5_000_000, 5_000_001]])
    assert betas[-1] == 2.0**53
    assert (np.diff(betas) > 0).all()
    assert isinstance(diminishing.of_run(make_run(real=[[5_000_000, 5_000_001]])), Picture)
