"""The limit to a client's share: its properties, and cases by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedeas_app.capping import cap

LIMITS = st.floats(0.001, 1.0)


@st.composite
def shares(draw):
    raw = draw(st.lists(st.floats(0, 1e6), min_size=1, max_size=30).filter(lambda w: sum(w) > 0))
    return np.array(raw) / np.sum(raw)


@given(shares(), LIMITS)
def test_they_sum_to_one_and_none_is_above(weights, largest):
    capped = cap(weights, largest)
    assert capped.shape == weights.shape
    assert capped.sum() == pytest.approx(1.0, abs=1e-9)
    assert capped.min() >= 0
    assert capped.max() <= max(largest, 1 / len(weights)) * (1 + 1e-9)


@given(shares(), LIMITS)
def test_the_order_of_the_weights_stays(weights, largest):
    capped = cap(weights, largest)[np.argsort(weights)]
    assert (np.diff(capped) >= -1e-12).all()


@given(shares(), LIMITS)
def test_they_are_left_alone_where_none_is_above(weights, largest):
    if weights.max() <= largest and len(weights) * largest > 1 + 1e-6:
        assert np.array_equal(cap(weights, largest), weights)


@given(shares(), LIMITS)
def test_what_is_not_capped_keeps_its_proportions(weights, largest):
    capped = cap(weights, largest)
    free = (capped < largest * (1 - 1e-9)) & (weights > 1e-9)
    if len(weights) * largest > 1 + 1e-6 and free.any():
        ratios = capped[free] / weights[free]
        assert ratios == pytest.approx(ratios[0])
        assert ratios[0] >= 1 - 1e-9


@given(shares(), LIMITS)
def test_doing_it_twice_changes_nothing(weights, largest):
    once = cap(weights, largest)
    assert cap(once, largest) == pytest.approx(once, abs=1e-9)


@pytest.mark.parametrize(
    ("weights", "largest", "expected"),
    [
        # 0.7 → 0.5; the 0.5 that is left goes 2 : 1.
        ([0.7, 0.2, 0.1], 0.5, [0.5, 1 / 3, 1 / 6]),
        # First 0.6 → 0.3; then 0.3 of 0.7·0.3/0.4 = 0.525 is above, too, and 0.4 is left for 0.1.
        ([0.6, 0.3, 0.05, 0.05], 0.3, [0.3, 0.3, 0.2, 0.2]),
        ([1.0, 0.0, 0.0], 0.4, [0.4, 0.3, 0.3]),
        ([0.9, 0.1], 0.5, [0.5, 0.5]),
        ([0.9, 0.1], 0.2, [0.5, 0.5]),
        ([1.0], 0.1, [1.0]),
        ([0.25, 0.75], 1.0, [0.25, 0.75]),
    ],
)
def test_by_hand(weights, largest, expected):
    assert cap(weights, largest) == pytest.approx(expected)
