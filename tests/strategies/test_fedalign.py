"""FedAlign's weights from updates whose angles are known."""

import numpy as np
import pytest

SIZES = [10, 30, 60]
# Updates of clients at a right angle, along, and against: (3 weights of one row, the rest 0).
UPDATES = [(0.0, 4.0, 0.0), (2.0, 0.0, 0.0), (-0.5, 0.0, 0.0)]


def model(started, update, bias=0.0, steps=5):
    w = started.arrays["layer.weight"].numpy().copy()
    w[0] += np.float32(update)
    return started.record(w, np.full(3, bias, np.float32), np.array(steps, np.int64))


def by_hand(updates, sizes, epsilon):
    deltas, n = np.array(updates, np.float64), np.array(sizes, np.float64)
    mean = (n[:, None] * deltas).sum(0) / n.sum()
    lengths = np.linalg.norm(deltas, axis=1) * np.linalg.norm(mean)
    a = np.maximum(0, deltas @ mean / lengths)
    return n * (a + epsilon) / (n * (a + epsilon)).sum(), a


@pytest.mark.parametrize("epsilon", [1e-3, 0.5])
def test_weights_are_sizes_times_agreement(begin, epsilon):
    started = begin(strategy="fedalign", align_epsilon=epsilon, sizes=SIZES)
    models = [model(started, update) for update in UPDATES]
    result = started.aggregate(started.reply(k, models[k]) for k in (1, 2, 0))
    weights, a = by_hand(UPDATES, SIZES, epsilon)
    # Δ̄ = (0.3, 0.4, 0): cosines 0.8, 0.6, −0.6.
    assert a == pytest.approx([0.8, 0.6, 0.0])
    people = result.report.participants
    assert [p.weight for p in people] == pytest.approx(weights)
    assert [p.score for p in people] == [p.details["agreement"] for p in people]
    assert [p.score for p in people] == pytest.approx(a)
    mean = sum(w * np.float64(u) for w, u in zip(weights, UPDATES, strict=True))
    assert result.arrays["layer.weight"].numpy()[0] == pytest.approx(mean)


def test_equal_updates_and_no_update_at_all_weigh_by_size(begin):
    for update, agreement in [((1.0, 2.0, 3.0), 1.0), ((0.0, 0.0, 0.0), 0.0)]:
        started = begin(strategy="fedalign", sizes=SIZES)
        same = model(started, update)
        result = started.aggregate(started.reply(k, same) for k in range(3))
        assert [p.weight for p in result.report.participants] == pytest.approx([0.1, 0.3, 0.6])
        assert [p.score for p in result.report.participants] == pytest.approx([agreement] * 3)


def test_the_angle_does_not_depend_on_the_length_or_on_the_starting_point(begin):
    def weights(scale, origin):
        started = begin(strategy="fedalign", sizes=[1, 1, 1])
        started.arrays = started.record(
            np.full((2, 3), origin, np.float32), np.zeros(3, np.float32), np.array(4, np.int64)
        )
        started.strategy.configure_train(1, started.arrays, None, None)
        updates = [np.float32(update) * scale for update in UPDATES]
        models = [model(started, update) for update in updates]
        result = started.aggregate(started.reply(k, models[k]) for k in range(3))
        return [p.weight for p in result.report.participants]

    assert weights(1.0, 0.0) == pytest.approx(weights(16.0, 0.0), rel=1e-6)
    assert weights(1.0, 0.0) == pytest.approx(weights(1.0, 0.5), rel=1e-6)


def test_buffers_have_no_say(begin):
    """The bias stands for a buffer here: it is not among the trainable parameters."""
    people = {}
    for bias in (0.0, 1e6):
        started = begin(strategy="fedalign")
        started.strategy._trainable = ["layer.weight"]
        models = [model(started, update, bias=bias * k) for k, update in enumerate(UPDATES)]
        result = started.aggregate(started.reply(k, models[k]) for k in range(3))
        people[bias] = result.report.participants
    assert people[0.0] == people[1e6]


def test_both_factors_multiply(begin):
    ouis = [0.1, 0.3, 0.2]
    keys = {"oui_rho": 0.5, "oui_gamma": 2.0, "oui_epsilon": 0.01, "align_epsilon": 0.1}
    started = begin(strategy="fedoui-fedalign", sizes=SIZES, **keys)
    models = [model(started, update) for update in UPDATES]
    result = started.aggregate(started.reply(k, models[k], oui=ouis[k]) for k in (2, 1, 0))
    alone = begin(strategy="fedoui")
    s = [
        p.score
        for p in alone.aggregate(alone.reply(k, oui=ouis[k]) for k in range(3)).report.participants
    ]
    a = by_hand(UPDATES, SIZES, 0.0)[1]
    expected = np.sqrt(SIZES) * (np.array(s) + 0.01) ** 2 * (a + 0.1)
    people = result.report.participants
    assert [p.weight for p in people] == pytest.approx(expected / expected.sum())
    assert [p.score for p in people] == pytest.approx(s)
    assert [p.details["agreement"] for p in people] == pytest.approx(a)
