"""The limit to an update's norm."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedeas_app.clipping import factor, factors

NORMS = st.floats(0, 1e12)


@given(NORMS, st.floats(1e-9, 1e9))
def test_no_norm_is_above_the_limit_and_smaller_ones_stay(norm, largest):
    found = factor(norm, largest)
    assert 0 < found <= 1
    assert found * norm <= largest * (1 + 1e-12)
    assert (found == 1) == (norm <= largest)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(2.0, [1.0, 1.0, 0.5, 0.02]), (1e3, [1.0] * 4), ("median", [1.0, 1.0, 0.75, 0.03])],
)
def test_by_hand(limit, expected):
    norms = {3: 1.0, 5: 2.0, 8: 4.0, 9: 100.0}  # median 3
    assert factors(norms, limit) == pytest.approx(dict(zip(norms, expected, strict=True)))


@given(st.lists(NORMS, min_size=1, max_size=20))
def test_the_median_leaves_half_of_the_round_as_it_is(norms):
    found = factors(dict(enumerate(norms)), "median")
    assert sum(f == 1 for f in found.values()) >= len(norms) / 2
    clipped = [f * n for f, n in zip(found.values(), norms, strict=True)]
    assert max(clipped) <= np.median(norms) * (1 + 1e-12)


def test_a_round_in_which_most_stand_still_stands_still():
    assert factors({0: 0.0, 1: 0.0, 2: 5.0}, "median") == {0: 1.0, 1: 1.0, 2: 0.0}
