"""A client's share and the norm of its update, limited under every strategy."""

import numpy as np
import pytest

from fedeas_app.strategies.registry import STRATEGIES

NAMES = ("layer.weight", "layer.bias")
SIZES = [10, 20, 30, 940]
WEIGHING = sorted(set(STRATEGIES) - {"fedmedian", "fedtrimmedavg", "krum", "multikrum", "scaffold"})


def flat(record):
    return np.concatenate([record[name].numpy().ravel() for name in NAMES]).astype(np.float64)


@pytest.mark.parametrize("strategy", WEIGHING)
def test_no_client_has_a_larger_share_than_allowed(begin, strategy):
    started = begin(strategy=strategy, clients=4, sizes=SIZES, max_client_weight=0.4)
    free = begin(strategy=strategy, clients=4, sizes=SIZES)
    people = started.aggregate(started.reply(k) for k in range(4)).report.participants
    uncapped = free.aggregate(free.reply(k) for k in range(4)).report.participants
    assert sum(p.weight for p in people) == pytest.approx(1.0)
    assert max(p.weight for p in people) == pytest.approx(0.4)
    assert max(p.weight for p in uncapped) > 0.4
    assert [p.score for p in people] == [p.score for p in uncapped]


def test_the_average_is_taken_with_the_capped_weights(begin):
    started = begin(clients=4, sizes=SIZES, max_client_weight=0.4)
    result = started.aggregate(started.reply(k) for k in range(4))
    weights = [0.1, 0.2, 0.3, 0.4]  # 0.6 goes 1 : 2 : 3
    assert [p.weight for p in result.report.participants] == pytest.approx(weights)
    expected = sum(w * flat(started.model(k)) for k, w in enumerate(weights))
    assert np.allclose(flat(result.arrays), expected, atol=1e-6)


def test_clients_alike_where_the_limit_leaves_nothing_else(begin):
    started = begin(strategy="fedoui", clients=4, sizes=SIZES, max_client_weight=0.25)
    result = started.aggregate(started.reply(k) for k in range(4))
    assert [p.weight for p in result.report.participants] == pytest.approx([0.25] * 4)


@pytest.mark.parametrize("limit", [0.5, "median"])
def test_updates_are_scaled_down_to_the_limit_and_the_record_says_so(begin, limit):
    started = begin(clients=5, clip_norm=limit)
    result = started.aggregate(started.reply(k) for k in (4, 2, 0, 1, 3))
    updates = [flat(started.model(k)) for k in range(5)]  # the round starts from zeros
    norms = [np.linalg.norm(u) for u in updates]
    largest = np.median(norms) if limit == "median" else limit
    factors = [min(1.0, largest / norm) for norm in norms]
    people = result.report.participants
    assert [p.details["norm"] for p in people] == pytest.approx(norms)
    assert [p.details["clipped-by"] for p in people] == pytest.approx(factors)
    expected = sum(p.weight * f * u for p, f, u in zip(people, factors, updates, strict=True))
    assert np.allclose(flat(result.arrays), expected, atol=1e-6)
    assert result.arrays["steps"].numpy() == 40


def test_an_update_within_the_limit_is_left_as_it_is_to_the_bit(begin):
    free, limited = begin(clients=4), begin(clients=4, clip_norm=1e6)
    both = [one.aggregate(one.reply(k) for k in range(4)).arrays for one in (free, limited)]
    assert [a.data for a in both[0].values()] == [a.data for a in both[1].values()]


def test_buffers_are_neither_measured_nor_clipped(begin):
    """The bias stands for a buffer here: it is not among the trainable parameters."""
    started = begin(clients=2, sizes=[1, 1], clip_norm=1.0)
    started.strategy._trainable = ["layer.weight"]
    models = [
        started.record(
            np.full((2, 3), w, np.float32), np.full(3, 1e3, np.float32), np.array(0, np.int64)
        )
        for w in (0.0, 10.0)
    ]
    result = started.aggregate(started.reply(k, models[k]) for k in range(2))
    assert [p.details["norm"] for p in result.report.participants] == [0, pytest.approx(600**0.5)]
    assert np.allclose(result.arrays["layer.bias"].numpy(), 1e3)
    assert np.linalg.norm(result.arrays["layer.weight"].numpy()) == pytest.approx(0.5)


@pytest.mark.parametrize("strategy", sorted(set(STRATEGIES) - {"scaffold"}))
def test_every_other_strategy_gets_clipped_updates(begin, strategy):
    """A client with a huge update moves the model no farther than one with a usual update."""
    keys = {"server_learning_rate": 1.0, "server_momentum": 0.0} if strategy == "fedavgm" else {}
    started = begin(strategy=strategy, clients=5, clip_norm=0.1, **keys)
    huge = started.record(
        np.full((2, 3), 1e9, np.float32), np.full(3, -1e9, np.float32), np.array(0, np.int64)
    )
    result = started.aggregate(started.reply(k, huge if k == 2 else None) for k in range(5))
    length = np.linalg.norm(flat(result.arrays))
    adaptive = strategy in ("fedadam", "fedyogi")  # their step has a length of its own
    assert 0 < length <= (1.0 if adaptive else 0.1 * 5**0.5)
    spread = [p.details["drift"] for p in result.report.participants]
    assert np.isfinite(spread).all()


def test_both_limits_and_fedoui_go_together(begin):
    keys = {"max_client_weight": 0.3, "clip_norm": "median", "oui_window": 2}
    started = begin(strategy="fedoui", clients=5, sizes=[900, 10, 10, 10, 10], **keys)
    result = started.aggregate(started.reply(k) for k in range(5))
    people = result.report.participants
    assert max(p.weight for p in people) <= 0.3 + 1e-12
    updates = [p.details["clipped-by"] * flat(started.model(p.partition)) for p in people]
    expected = sum(p.weight * u for p, u in zip(people, updates, strict=True))
    assert np.allclose(flat(result.arrays), expected, atol=1e-6)
