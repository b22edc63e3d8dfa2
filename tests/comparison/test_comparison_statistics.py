"""What a few seeds say, against values worked out by hand and by scipy's own test."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedeas_app.comparison.statistics import paired_difference, spread

VALUES = st.floats(-1, 1, allow_subnormal=False)


def test_the_spread_divides_by_one_less_than_the_number():
    result = spread([1.0, 2.0, 6.0])
    assert result is not None
    assert (result.n, result.mean) == (3, 3.0)
    assert result.std == pytest.approx(7**0.5)  # (4 + 1 + 9) / 2


def test_one_value_has_no_spread_and_none_has_nothing():
    assert spread([0.5]) is not None
    assert spread([0.5]).std is None
    assert spread([]) is None


def test_a_paired_difference_by_hand():
    # Differences 1, 3, 2: mean 2, standard deviation 1, error 1/√3; t(0.975; 2) = 4.302653.
    result = paired_difference({0: 2.0, 1: 5.0, 2: 3.0}, {0: 1.0, 1: 2.0, 2: 1.0})
    assert result is not None
    assert (result.n, result.mean, result.better) == (3, 2.0, 3)
    assert result.standard_error == pytest.approx(3**-0.5)
    reach = 4.3026527 / 3**0.5
    assert result.interval == pytest.approx((2 - reach, 2 + reach))


def test_only_shared_seeds_count_and_a_tie_is_not_better():
    result = paired_difference({0: 0.5, 1: 0.25, 7: 9.0}, {1: 0.25, 0: 0.75, 8: 9.0})
    assert result is not None
    assert (result.n, result.mean, result.better) == (2, -0.125, 0)


def test_a_single_shared_seed_has_a_difference_and_no_interval():
    result = paired_difference({0: 0.5}, {0: 0.25, 1: 0.5})
    assert result is not None
    assert (result.n, result.mean, result.better) == (1, 0.25, 1)
    assert result.standard_error is None
    assert result.interval is None


def test_without_a_shared_seed_there_is_nothing_to_compare():
    assert paired_difference({0: 0.5}, {1: 0.5}) is None


@given(st.lists(st.tuples(VALUES, VALUES), min_size=3, max_size=9))
def test_the_interval_excludes_zero_when_the_paired_t_test_does(pairs):
    arm, baseline = np.array(pairs).T
    differences = arm - baseline
    if np.ptp(differences) < 1e-6:  # then scipy's test statistic is 0 / 0
        return
    result = paired_difference(dict(enumerate(arm)), dict(enumerate(baseline)))
    assert result is not None
    assert result.interval is not None
    p = stats.ttest_rel(arm, baseline).pvalue
    if abs(p - 0.05) > 1e-6:
        assert (result.interval[0] > 0 or result.interval[1] < 0) == (p < 0.05)
