"""OUI, its Beta fit and the weights against hand-worked numbers, fractions and scipy.stats."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.special import digamma

from fedeas_app.oui import BetaFit, aggregation_weights, combine, fit_beta, oui, scores, smooth

QUICK = settings(max_examples=60, deadline=None)

# The authors' published round: five clients' OUI on 32 x 128 pre-activations, and their sizes.
GOLDEN_OUI = np.array([259, 635, 527, 651, 761]) / 2048
GOLDEN_N = [210, 66, 226, 40, 17]

SIGNED = st.integers(-3, 3).map(float)
BATCH = arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=SIGNED)
OUI_VALUES = st.lists(
    st.one_of(st.floats(0, 1), st.integers(0, 16).map(lambda i: i / 16), st.floats(0.3, 0.300001)),
    min_size=1,
    max_size=12,
)


def reference_moments(values):
    """Alpha and beta by the formulas, in exact fractions."""
    o = [min(max(Fraction(x), Fraction(1e-3)), Fraction(1 - 1e-3)) for x in values]
    m = sum(o) / len(o)
    v = sum((x - m) ** 2 for x in o) / (len(o) - 1)
    kappa = m * (1 - m) / v - 1
    return m * kappa, (1 - m) * kappa


# --- OUI ---


def test_oui_by_hand():
    z = [[1, -1, 2], [3, -2, 0.1], [-1, -1, 5], [-2, 0, -1]]  # on: 2, 0 and 3 of 4
    assert oui(z) == pytest.approx((2 + 0 + 1) / 3 / 2)


def test_oui_of_an_odd_batch():
    z = np.array([[1, 1], [1, -1], [1, -1], [-1, -1], [-1, -1]])  # on: 3 and 1 of 5; floor(5/2) = 2
    assert oui(z) == pytest.approx((2 + 1) / 2 / 2)


def test_oui_limits():
    half = np.vstack([np.ones((16, 7)), -np.ones((16, 7))])
    assert oui(half) == 1.0
    assert oui(np.ones((32, 7))) == oui(-np.ones((32, 7))) == oui(np.zeros((32, 7))) == 0.0
    assert oui(np.ones((1, 3))) == oui(np.ones((0, 3))) == 0.0


def test_oui_flattens_trailing_axes_and_takes_lists_and_float32():
    z = np.random.default_rng(0).normal(size=(8, 3, 2, 2))
    assert oui(z) == oui(z.reshape(8, 12)) == oui(z.astype(np.float32)) == oui(z.tolist())


@QUICK
@given(BATCH)
def test_oui_matches_a_plain_loop(z):
    batch, units = z.shape
    counts = [sum(1 for i in range(batch) if z[i, j] > 0) for j in range(units)]
    numerator = sum(min(s, batch - s) for s in counts)
    expected = Fraction(numerator, units * (batch // 2)) if batch > 1 else 0
    assert oui(z) == pytest.approx(float(expected), abs=1e-15)
    assert 0.0 <= oui(z) <= 1.0


@QUICK
@given(BATCH, st.floats(1e-3, 1e3), st.randoms(use_true_random=False))
def test_oui_ignores_scale_order_and_the_side_that_is_on(z, scale, random):
    rows = random.sample(range(len(z)), len(z))
    columns = random.sample(range(z.shape[1]), z.shape[1])
    assert oui(z[rows][:, columns] * scale) == pytest.approx(oui(z))
    nonzero = np.where(z == 0, 1.0, z)
    assert oui(-nonzero) == pytest.approx(oui(nonzero))


@pytest.mark.parametrize("shape", [(), (4,), (4, 0), (4, 3, 0), (0, 0)])
def test_oui_needs_units(shape):
    with pytest.raises(ValueError, match=r"must be \(samples, units\)"):
        oui(np.zeros(shape))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_oui_refuses_values_that_are_not_finite(value):
    with pytest.raises(ValueError, match="must be finite"):
        oui([[1.0, value], [1.0, 2.0]])


# --- the fit ---


def test_golden_round():
    fit = fit_beta(GOLDEN_OUI)
    assert fit is not None
    assert fit.method == "moments"
    assert (fit.alpha, fit.beta) == (
        pytest.approx(6.0951, abs=5e-5),
        pytest.approx(15.9359, abs=5e-5),
    )
    s = scores(GOLDEN_OUI)
    np.testing.assert_allclose(s, [0.0743, 0.6821, 0.8950, 0.6264, 0.3165], atol=5.1e-5)
    w = aggregation_weights(GOLDEN_N, GOLDEN_OUI)
    np.testing.assert_allclose(w, [0.0538, 0.1534, 0.6890, 0.0854, 0.0184], atol=5.1e-5)


def test_golden_round_with_scipy_stats():
    alpha, beta = map(float, reference_moments(GOLDEN_OUI))
    p = scipy.stats.beta(alpha, beta).cdf(GOLDEN_OUI)
    s = [2 * min(x, 1 - x) for x in p]
    raw = [n * (x + 1e-3) for n, x in zip(GOLDEN_N, s, strict=True)]
    w = aggregation_weights(GOLDEN_N, GOLDEN_OUI)
    np.testing.assert_allclose(w, [x / sum(raw) for x in raw], rtol=1e-10)


@QUICK
@given(st.lists(st.floats(0.05, 0.6), min_size=2, max_size=20))
def test_moments_match_fractions(values):
    assume(max(values) - min(values) > 1e-3)
    alpha, beta = reference_moments(values)
    assume(alpha > 0)
    fit = fit_beta(values)
    assert fit is not None
    assert fit.method == "moments"
    assert (fit.alpha, fit.beta) == (pytest.approx(float(alpha)), pytest.approx(float(beta)))


@pytest.mark.parametrize("values", [[0, 1], [0, 0, 1], [0, 1, 1, 1], [0.001, 0.999, 0.999, 0.0]])
def test_likelihood_where_moments_are_not_valid(values):
    assert sum(reference_moments(values)) < 0  # kappa
    fit = fit_beta(values)
    assert fit is not None
    assert fit.method == "likelihood"
    # At the maximum, the expectations of ln x and ln(1 - x) equal their means.
    o = np.clip(values, 1e-3, 1 - 1e-3)
    total = digamma(fit.alpha + fit.beta)
    assert digamma(fit.alpha) - total == pytest.approx(np.log(o).mean(), rel=1e-6)
    assert digamma(fit.beta) - total == pytest.approx(np.log1p(-o).mean(), rel=1e-6)


@pytest.mark.parametrize("values", [[0.3], [0.1] * 3, [0.0, 0.0005], [1.0, 0.9995, 1.0]])
def test_no_fit_without_spread(values):
    assert fit_beta(values) is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("error", [RuntimeError, ValueError, FloatingPointError])
def test_a_failing_likelihood_falls_back_to_ranks(monkeypatch, error):
    def fail(*_args, **_kwargs):
        warnings.warn("noise", RuntimeWarning, stacklevel=1)
        raise error("no")

    monkeypatch.setattr(scipy.stats.beta, "fit", fail)
    assert fit_beta([0, 1]) is None
    np.testing.assert_allclose(scores([0, 1]), [2 / 3, 2 / 3])  # p = 1/3, 2/3


@pytest.mark.parametrize("pair", [(math.nan, 1.0), (1.0, -1.0), (math.inf, 1.0), (0.0, 1.0)])
def test_a_nonsensical_likelihood_is_no_fit(monkeypatch, pair):
    monkeypatch.setattr(scipy.stats.beta, "fit", lambda *_args, **_kwargs: (*pair, 0, 1))
    assert fit_beta([0, 1]) is None


# --- scores ---


@pytest.mark.parametrize("values", [[0.0], [1.0], [0.27], [0.1] * 7, [0.0] * 2, [1.0] * 3])
def test_one_client_or_equal_values_score_one(values):
    assert scores(values).tolist() == [1.0] * len(values)


def test_rank_scores_by_hand():
    # All below 0.001: one value for the fit, so ranks 1, 3, 2 of 4 + 1 and, with a tie, 1.5.
    np.testing.assert_allclose(scores([0, 0.0005, 0.0003]), [0.5, 0.5, 1.0])
    np.testing.assert_allclose(scores([0, 0, 0.0005]), [0.75, 0.75, 0.5])


def test_the_distribution_function_is_evaluated_further_out_than_the_fit():
    values = [0.0, 0.00005, 0.0005, 0.2, 0.3, 0.25, 0.6]
    alpha, beta = map(float, reference_moments(values))
    p = scipy.stats.beta(alpha, beta).cdf([1e-4, 1e-4, 0.0005, 0.2, 0.3, 0.25, 0.6])
    np.testing.assert_allclose(scores(values), 2 * np.minimum(p, 1 - p), rtol=1e-9)


@QUICK
@given(OUI_VALUES)
def test_scores_are_finite_bounded_and_silent(values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s = scores(values)
    assert s.shape == (len(values),)
    assert np.isfinite(s).all()
    assert ((s >= 0) & (s <= 1)).all()
    np.testing.assert_array_equal(s, scores(np.array(values)))  # and deterministic


@pytest.mark.parametrize("spread", [1e-16, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6])
def test_values_that_differ_by_rounding_only(spread):
    s = scores(0.236 + spread * np.arange(9))
    assert np.isfinite(s).all()
    assert s[4] == s.max()


@QUICK
@given(st.lists(st.floats(0.01, 0.99), min_size=2, max_size=10), st.randoms(use_true_random=False))
def test_scores_follow_their_clients_and_the_mirror(values, random):
    assume(max(values) - min(values) > 1e-3)
    o = np.array(values)
    order = random.sample(range(len(o)), len(o))
    np.testing.assert_allclose(scores(o[order]), scores(o)[order], atol=1e-6)
    np.testing.assert_allclose(scores(1 - o), scores(o), atol=1e-6)


def test_outliers_score_low():
    s = scores([0.02, 0.2, 0.21, 0.22, 0.23, 0.24, 0.7])
    assert max(s[0], s[-1]) < s[1:-1].min() / 2


def test_a_hundred_thousand_clients():
    s = scores(np.random.default_rng(0).beta(6, 16, 100_000))
    # Two-sided tail scores of a sample of the fitted distribution are uniform on [0, 1].
    assert scipy.stats.kstest(s, "uniform").statistic < 0.01


# --- weights ---


@QUICK
@given(OUI_VALUES, st.data())
def test_weights_match_the_formula(values, data):
    n = data.draw(st.lists(st.integers(1, 10_000), min_size=len(values), max_size=len(values)))
    rho, gamma = data.draw(st.floats(0, 3)), data.draw(st.floats(0, 3))
    w = aggregation_weights(n, values, rho=rho, gamma=gamma)
    pairs = zip(n, scores(values), strict=True)
    raw = np.array([size**rho * (s + 1e-3) ** gamma for size, s in pairs])
    np.testing.assert_allclose(w, raw / raw.sum(), rtol=1e-9)
    assert w.sum() == pytest.approx(1.0, abs=1e-12)


def test_special_cases_of_the_weights():
    n = np.array([1, 2, 5])
    values = [0.1, 0.2, 0.4]
    np.testing.assert_allclose(aggregation_weights(n, values, gamma=0), n / 8)  # FedAvg
    np.testing.assert_allclose(aggregation_weights(n, [0.2] * 3), n / 8)
    np.testing.assert_allclose(aggregation_weights(n, values, rho=0, gamma=0), [1 / 3] * 3)
    assert aggregation_weights([7], [0.3]).tolist() == [1.0]
    assert aggregation_weights([0, 3], [0.1, 0.2])[0] == 0.0


def test_extreme_exponents_stay_finite():
    n, values = [1e300, 1, 1e-300], [0.0, 0.3, 0.31]
    for rho, gamma in ((0, 1e4), (1e4, 0), (50, 1e3)):
        w = aggregation_weights(n, values, rho=rho, gamma=gamma)
        assert np.isfinite(w).all()
        assert w.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "at least one client"),
        ([[0.1]], r"shape \(1, 1\)"),
        (0.3, r"shape \(\)"),
        ([0.1, 1.2], r"got 1\.2 for client 1"),
        ([-0.1], r"got -0\.1 for client 0"),
        ([0.2, math.nan], "got nan for client 1"),
    ],
)
def test_bad_oui_values(values, message):
    for function in (scores, fit_beta, lambda x: aggregation_weights(np.ones(np.shape(x)), x)):
        with pytest.raises(ValueError, match=message):
            function(values if np.ndim(values) else np.float64(values))


@pytest.mark.parametrize(
    ("n", "message"),
    [
        ([1, -1], "got -1.0 for client 1"),
        ([math.nan, 1], "got nan for client 0"),
        ([math.inf, 1], "got inf for client 0"),
        ([0, 0], "positive for at least one"),
        ([[1, 2]], "must be 1-D"),
        ([1, 2, 3], "got 3 and 2 clients"),
        ([1], "got 1 and 2 clients"),
    ],
)
def test_bad_sizes(n, message):
    with pytest.raises(ValueError, match=message):
        aggregation_weights(n, [0.1, 0.2])


@pytest.mark.parametrize(
    ("name", "value"),
    [("epsilon", 0), ("epsilon", -1), ("epsilon", math.nan), ("rho", -1), ("gamma", math.inf)],
)
def test_bad_exponents(name, value):
    with pytest.raises(ValueError, match=f"{name} must be finite"):
        aggregation_weights([1, 2], [0.1, 0.2], **{name: value})


def test_a_fit_is_a_plain_tuple():
    assert BetaFit(1.0, 2.0, "moments") == (1.0, 2.0, "moments")


def test_scores_against_several_rounds_use_their_distribution():
    now, before = [0.2, 0.5], [0.1, 0.3, 0.4]
    among = np.array(before + now)
    m, v = among.mean(), among.var(ddof=1)
    kappa = m * (1 - m) / v - 1
    f = scipy.stats.beta(m * kappa, (1 - m) * kappa).cdf(now)
    assert scores(now, among) == pytest.approx(2 * np.minimum(f, 1 - f))
    assert scores(now, now).tolist() == scores(now).tolist()


def test_equal_values_of_a_round_are_told_apart_from_those_of_others():
    assert scores([0.3, 0.3], [0.3, 0.3, 0.3]).tolist() == [1.0, 1.0]
    low, same = scores([0.1, 0.1], [0.4, 0.5, 0.6, 0.1, 0.1])
    assert low == same < 0.5


def test_rank_scores_against_several_rounds(monkeypatch):
    monkeypatch.setattr("fedeas_app.oui.fit_beta", lambda values: None)
    # Ranks among 0.1, 0.2, 0.2, 0.3, 0.4: 2.5 and 5, over 6.
    found = scores([0.2, 0.4], [0.3, 0.1, 0.2, 0.2, 0.4])
    assert found == pytest.approx([2 * 2.5 / 6, 2 * (1 - 5 / 6)])


def test_a_running_mean_forgets_exponentially():
    assert smooth(0.4, None, 0.9) == 0.4
    assert smooth(0.4, 0.2, 0.0) == 0.4
    values, mean = [0.1, 0.5, 0.3, 0.7], None
    for value in values:
        mean = smooth(value, mean, 0.25)
    weights = [0.25**3, 0.75 * 0.25**2, 0.75 * 0.25, 0.75]
    assert mean == pytest.approx(np.dot(weights, values))


def test_another_factor_multiplies_the_weights():
    n, s, factor = [10, 20, 30], [0.5, 1.0, 0.1], [0.2, 0.0011, 1.001]
    w = np.array(n) ** 0.5 * (np.array(s) + 0.01) ** 2 * factor
    found = combine(n, s, epsilon=0.01, rho=0.5, gamma=2.0, factors=factor)
    assert found == pytest.approx(w / w.sum())
    assert found.sum() == pytest.approx(1.0)
