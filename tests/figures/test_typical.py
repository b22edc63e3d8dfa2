"""What the OUI-Beta rule saw, read back from a record."""

import numpy as np
import pytest
from made_up_runs import make_run
from scipy import stats

from fedeas_app.figures.typical import rule, weighed

# METHOD's golden round: OUI and n, with the fit, scores and weights they give.
OUI = np.array([259, 635, 527, 651, 761]) / 2048
SIZES = np.array([210, 66, 226, 40, 17])
SCORES = np.array([0.0743, 0.6821, 0.8950, 0.6264, 0.3165])
WEIGHTS = np.array([0.0538, 0.1534, 0.6890, 0.0854, 0.0184])


def golden(**more):
    run = make_run((0.5, 0.6))
    for line in run.trained:
        line["participants"] = [
            {"num-examples": int(n), "oui": float(o), "score": float(s), "weight": float(w)}
            | {key: value[k] for key, value in more.items()}
            for k, (n, o, s, w) in enumerate(zip(SIZES, OUI, SCORES, WEIGHTS, strict=True))
        ]
    return run


def test_weights_are_compared_with_shares_of_the_samples():
    last = weighed(golden())[-1]
    assert last.server_round == 2
    np.testing.assert_array_equal(last.values, OUI)
    np.testing.assert_allclose(last.factors, WEIGHTS * 559 / SIZES)


def test_the_golden_round_is_judged_by_its_beta():
    judged_by = rule(weighed(golden()), window=1)
    assert judged_by.fit is not None
    assert judged_by.fit.alpha == pytest.approx(6.0951, abs=1e-4)
    assert judged_by.fit.beta == pytest.approx(15.9359, abs=1e-4)
    np.testing.assert_allclose(judged_by.curve(OUI), SCORES, atol=1e-4)


def test_the_curve_is_the_two_sided_tail_of_the_beta():
    judged_by = rule(weighed(golden()), window=1)
    grid = np.linspace(0.05, 0.95, 19)
    p = stats.beta(judged_by.fit.alpha, judged_by.fit.beta).cdf(grid)
    np.testing.assert_allclose(judged_by.curve(grid), 2 * np.minimum(p, 1 - p), atol=1e-12)


def test_a_window_holds_the_values_of_its_rounds():
    rounds = weighed(make_run((0.1, 0.2, 0.3)))
    expected = np.concatenate([rounds[1].values, rounds[2].values])
    np.testing.assert_array_equal(rule(rounds, window=2).reference, expected)
    assert len(rule(rounds, window=9).reference) == 12  # three rounds of four


def test_smoothed_values_come_before_the_round_s_own():
    smoothed = [0.2, 0.3, 0.25, 0.3, 0.35]
    run = golden(**{"oui-smoothed": smoothed})
    np.testing.assert_array_equal(weighed(run)[-1].values, smoothed)


def test_equal_values_have_no_fit_and_full_scores():
    run = golden()
    for participant in run.trained[-1]["participants"]:
        participant["oui"] = 0.25
    judged_by = rule(weighed(run), window=1)
    assert judged_by.fit is None
    np.testing.assert_array_equal(judged_by.curve(np.array([0.1, 0.25])), [1, 1])
