"""FedOUI's weights against the authors' published round."""

import numpy as np
import pytest
from scipy import stats

from fedeas_app.strategies.report import Participant

# The published round: OUI, n_k, scores and weights.
OUI = [259 / 2048, 635 / 2048, 527 / 2048, 651 / 2048, 761 / 2048]
SIZES = [210, 66, 226, 40, 17]
SCORES = [0.0743, 0.6821, 0.8950, 0.6264, 0.3165]
WEIGHTS = [0.0538, 0.1534, 0.6890, 0.0854, 0.0184]


def participants(ouis, sizes):
    pairs = zip(sizes, ouis, strict=True)
    return [Participant(k, n, o, 1.0) for k, (n, o) in enumerate(pairs)]


def by_hand(ouis, sizes, epsilon, rho, gamma):
    """The formulas of the paper, by moments."""
    o, n = np.array(ouis), np.array(sizes, float)
    m, v = o.mean(), o.var(ddof=1)
    kappa = m * (1 - m) / v - 1
    f = stats.beta(m * kappa, (1 - m) * kappa).cdf(o)
    s = 2 * np.minimum(f, 1 - f)
    w = n**rho * (s + epsilon) ** gamma
    return w / w.sum(), s


def test_the_published_round_is_replayed(begin):
    weights, scores = begin(strategy="fedoui").strategy.weigh(participants(OUI, SIZES))
    assert scores == pytest.approx(SCORES, abs=5e-5)
    assert weights == pytest.approx(WEIGHTS, abs=5e-5)
    assert weights.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    "keys",
    [
        {"oui_epsilon": 1e-3, "oui_rho": 1.0, "oui_gamma": 1.0},
        {"oui_epsilon": 0.2, "oui_rho": 0.5, "oui_gamma": 2.0},
        {"oui_epsilon": 1e-3, "oui_rho": 0.0, "oui_gamma": 1.0},
    ],
)
def test_the_settings_reach_the_formula(begin, keys):
    weights, scores = begin(strategy="fedoui", **keys).strategy.weigh(participants(OUI, SIZES))
    expected, s = by_hand(OUI, SIZES, *keys.values())
    assert weights == pytest.approx(expected, rel=1e-9)
    assert scores == pytest.approx(s, rel=1e-9)


def test_gamma_zero_is_fedavg(begin):
    settings = {"strategy": "fedoui", "oui_gamma": 0.0}
    weights, _ = begin(**settings).strategy.weigh(participants(OUI, SIZES))
    assert weights == pytest.approx(np.array(SIZES) / sum(SIZES))


@pytest.mark.parametrize("ouis", [[0.3], [0.3, 0.3, 0.3], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0, 1.0]])
def test_degenerate_rounds_have_weights_of_sum_one(begin, ouis):
    sizes = [10 * (k + 1) for k in range(len(ouis))]
    weights, scores = begin(strategy="fedoui").strategy.weigh(participants(ouis, sizes))
    assert np.isfinite(weights).all()
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(1.0)
    if len(set(ouis)) == 1:  # nothing tells the clients apart: plain FedAvg
        assert scores.tolist() == [1.0] * len(ouis)
        assert weights == pytest.approx(np.array(sizes) / sum(sizes))


def test_a_whole_round_applies_the_published_weights(begin):
    started = begin(clients=5, strategy="fedoui", sizes=SIZES)
    result = started.aggregate(started.reply(k, oui=OUI[k]) for k in (3, 1, 4, 0, 2))
    found = result.report.participants
    assert [p.partition for p in found] == [0, 1, 2, 3, 4]
    assert [p.weight for p in found] == pytest.approx(WEIGHTS, abs=5e-5)
    assert [p.score for p in found] == pytest.approx(SCORES, abs=5e-5)
    weights, _ = by_hand(OUI, SIZES, 1e-3, 1, 1)
    expected = sum(w * started.model(k)["layer.weight"].numpy() for k, w in enumerate(weights))
    assert np.allclose(result.arrays["layer.weight"].numpy(), expected, atol=1e-6)
    # 1 / Σ w² of the published weights.
    assert result.report.effective_clients == pytest.approx(
        1 / sum(w**2 for w in WEIGHTS), rel=1e-3
    )


def rounds(begin, ouis, **keys):
    """The scores of some rounds of all clients, and the participants of the last."""
    started, found = begin(clients=len(ouis[0]), strategy="fedoui", **keys), []
    for number, values in enumerate(ouis, start=1):
        sent = list(started.strategy.configure_train(number, started.arrays, None, None))
        for place, msg in enumerate(sent):
            msg.metadata.__dict__["_message_id"] = f"id-{place}"
        started.of_partition = dict(enumerate(sent))
        replies = [started.reply(k, oui=value) for k, value in enumerate(values)]
        people = started.aggregate(replies[::-1], number).report.participants
        found.append([p.score for p in people])
    return found, people


THREE_ROUNDS = [[0.1, 0.2, 0.4], [0.3, 0.35, 0.2], [0.15, 0.5, 0.25]]


def two_sided(values, among):
    m, v = np.mean(among), np.var(among, ddof=1)
    kappa = m * (1 - m) / v - 1
    f = stats.beta(m * kappa, (1 - m) * kappa).cdf(values)
    return 2 * np.minimum(f, 1 - f)


@pytest.mark.parametrize("window", [1, 2, 5])
def test_the_beta_is_fitted_to_the_values_of_the_last_rounds(begin, window):
    found, _ = rounds(begin, THREE_ROUNDS, oui_window=window)
    for number, values in enumerate(THREE_ROUNDS):
        among = THREE_ROUNDS[max(0, number + 1 - window) : number + 1]
        assert found[number] == pytest.approx(two_sided(values, np.concatenate(among)))


def test_each_client_is_judged_by_its_own_running_mean(begin):
    found, people = rounds(begin, THREE_ROUNDS, oui_smoothing=0.5)
    first, second, third = map(np.array, THREE_ROUNDS)
    means = [first, (first + second) / 2, (first + second) / 4 + third / 2]
    for scores, mean in zip(found, means, strict=True):
        assert scores == pytest.approx(two_sided(mean, mean))
    assert [p.details["oui-smoothed"] for p in people] == pytest.approx(means[-1])
    assert [p.oui for p in people] == THREE_ROUNDS[-1]


def test_without_smoothing_the_record_has_no_running_mean(begin):
    _, people = rounds(begin, THREE_ROUNDS)
    assert all(set(p.details) == {"drift"} for p in people)
