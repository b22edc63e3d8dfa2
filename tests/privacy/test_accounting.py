"""ε of Gaussian noise against other people's numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedeas_app.privacy.accounting import delta_of, epsilon_of


# z, releases, δ, and ε by Google's dp-accounting 0.6.0: its PLDAccountant, which rounds up, and its
# RdpAccountant, which is an upper bound.
@pytest.mark.parametrize(
    ("z", "releases", "delta", "by_pld", "by_rdp"),
    [
        (1.0, 1, 1e-5, 4.37717810002493, 4.728507067217623),
        (1.0, 15, 1e-5, 23.34631068668751, 24.83092095026798),
        (2.0, 100, 1e-5, 33.10373233731123, 35.08175401905626),
        (0.5, 60, 1e-6, 192.76825029342402, 199.7108172428625),
        (10.0, 1000, 1e-8, 22.17343424989093, 23.21186420547467),
        (5.0, 1, 1e-3, 0.4539201666240838, 0.5309860626473291),
    ],
)
def test_epsilon_is_that_of_other_accountants(z, releases, delta, by_pld, by_rdp):
    found = epsilon_of(releases, z, delta)
    assert found == pytest.approx(by_pld, rel=1e-3)
    assert found < by_rdp


def test_delta_is_that_of_the_paper():
    """μ = 1 at ε = 1: Φ(−1/2) − e·Φ(−3/2), from a table of the normal distribution."""
    assert delta_of(1.0, 1.0) == pytest.approx(0.3085375 - 2.7182818 * 0.0668072, abs=1e-6)


@pytest.mark.parametrize(("z", "releases", "epsilon"), [(1.0, 1, 1.0), (2.0, 9, 0.5), (0.7, 1, 3)])
def test_delta_is_what_the_two_distributions_say(z, releases, epsilon):
    """∫ max(0, p − e^ε q) over N(1, σ²) and N(0, σ²), σ = z/√m, by brute force."""
    sigma = z / np.sqrt(releases)
    x = np.linspace(-12 * sigma, 1 + 12 * sigma, 400_001)
    p, q = stats.norm.pdf(x, 1, sigma), stats.norm.pdf(x, 0, sigma)
    expected = np.trapezoid(np.maximum(0, p - np.exp(epsilon) * q), x)
    assert delta_of(epsilon, np.sqrt(releases) / z) == pytest.approx(expected, rel=1e-6)


@given(st.integers(1, 10_000), st.floats(0.1, 50), st.floats(1e-12, 0.5))
def test_epsilon_gives_its_delta_again(releases, z, delta):
    epsilon = epsilon_of(releases, z, delta)
    mu = np.sqrt(releases) / z
    if epsilon > 0:
        assert delta_of(epsilon, mu) == pytest.approx(delta, rel=1e-4)
    else:
        assert delta_of(0, mu) <= delta


@given(st.integers(1, 1000), st.floats(0.2, 20), st.floats(1e-9, 1e-2))
def test_more_rounds_cost_more_and_more_noise_less(releases, z, delta):
    here = epsilon_of(releases, z, delta)
    assert epsilon_of(releases + 1, z, delta) >= here
    assert epsilon_of(releases, 1.1 * z, delta) <= here
    assert epsilon_of(releases, z, delta / 10) >= here
    assert epsilon_of(4 * releases, 2 * z, delta) == pytest.approx(here, rel=1e-6, abs=1e-6)


def test_who_never_took_part_has_told_nothing():
    assert epsilon_of(0, 1.0, 1e-5) == 0


def test_a_multiplier_that_hides_nothing_has_a_finite_price():
    assert 1e4 < epsilon_of(1000, 0.1, 1e-9) < np.inf
