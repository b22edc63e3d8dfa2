"""Krum and Multi-Krum against the paper's definition, written out."""

import numpy as np
import pytest

from fedeas_app.errors import UserError
from fedeas_app.strategies.distances import krum_scores

NAMES = ("layer.weight", "layer.bias")


def by_hand(updates, f):
    """The sums of each one's n − f − 2 smallest squared distances to others, one by one."""
    scores = []
    for i, one in enumerate(updates):
        others = sorted(((one - o) ** 2).sum() for j, o in enumerate(updates) if j != i)
        scores.append(sum(others[: len(updates) - f - 2]))
    return scores


def flat(model):
    return np.concatenate([model[name].numpy().ravel() for name in NAMES]).astype(np.float64)


def model(started, values, steps=3):
    w, b = np.float32(values[:6]).reshape(2, 3), np.float32(values[6:])
    return started.record(w, b, np.array(steps, np.int64))


@pytest.mark.parametrize(("clients", "f", "wanted"), [(7, 2, 0), (7, 1, 2), (9, 3, 4), (5, 1, 1)])
def test_it_averages_the_updates_with_the_smallest_scores(begin, clients, f, wanted):
    keys = {"malicious_clients": f, "krum_selected": wanted}
    started = begin(strategy="multikrum", clients=clients, sizes=[9_999] * clients, **keys)
    result = started.aggregate(started.reply(k) for k in reversed(range(clients)))
    scores = by_hand([flat(started.model(k)) for k in range(clients)], f)
    m = wanted or clients - f - 2
    chosen = sorted(np.argsort(scores)[:m].tolist())
    people = result.report.participants
    assert [p.details["krum-score"] for p in people] == pytest.approx(scores)
    assert [p.partition for p in people if p.weight] == chosen
    assert [p.weight for p in people if p.weight] == pytest.approx([1 / m] * m)
    assert [p.score for p in people] == [float(k in chosen) for k in range(clients)]
    for name in NAMES:
        expected = np.mean([started.model(k)[name].numpy() for k in chosen], axis=0)
        assert np.allclose(result.arrays[name].numpy(), expected, atol=1e-6)
    assert result.arrays["steps"].numpy() == 10 * max(chosen)


def test_krum_takes_the_one_model_to_the_bit(begin):
    started = begin(strategy="krum", clients=7, malicious_clients=2, krum_selected=3)
    result = started.aggregate(started.reply(k) for k in range(7))
    nearest = int(np.argmin(by_hand([flat(started.model(k)) for k in range(7)], 2)))
    assert all(result.arrays[n].data == started.model(nearest)[n].data for n in result.arrays)
    assert [p.weight for p in result.report.participants] == [float(k == nearest) for k in range(7)]


def test_small_differences_count_beside_large_weights(begin):
    """In float32 products of whole models they are lost: 1e4² has no room for 1e-3²."""
    started = begin(strategy="krum", clients=5)
    started.arrays = started.record(
        np.full((2, 3), 1e4, np.float32), np.full(3, 1e4, np.float32), np.array(0, np.int64)
    )
    started.strategy.configure_train(1, started.arrays, None, None)
    apart = np.float32([5, 1, 0, 2, 400]) / 256
    models = [model(started, 1e4 + np.full(9, a)) for a in apart]
    result = started.aggregate(started.reply(k, models[k]) for k in range(5))
    updates = [flat(m) - 1e4 for m in models]
    scores = [p.details["krum-score"] for p in result.report.participants]
    assert scores == pytest.approx(by_hand(updates, 1), rel=1e-9)
    assert np.argmax([p.weight for p in result.report.participants]) == np.argmin(scores) == 1


def test_two_hostile_clients_that_agree_are_not_chosen(begin):
    started = begin(strategy="multikrum", clients=7, malicious_clients=2)
    hostile = started.record(
        np.full((2, 3), 50, np.float32), np.full(3, 50, np.float32), np.array(2**62, np.int64)
    )
    result = started.aggregate(started.reply(k, hostile if k in (1, 5) else None) for k in range(7))
    people = result.report.participants
    assert not any(people[k].weight for k in (1, 5))
    assert result.arrays["steps"].numpy() <= 60


def test_ties_go_to_the_lower_partition(begin):
    started = begin(strategy="multikrum", clients=6, krum_selected=2)
    same = started.model(3)
    result = started.aggregate(started.reply(k, same) for k in (5, 3, 1, 0, 2, 4))
    assert [p.partition for p in result.report.participants if p.weight] == [0, 1]


def test_buffers_have_no_say_in_the_choice(begin):
    """The bias stands for a buffer here: it is not among the trainable parameters."""
    chosen = []
    for far in (0.0, 1e6):
        started = begin(strategy="krum", clients=5)
        started.strategy._trainable = ["layer.weight"]
        spoilt = started.model(2)
        models = [started.model(k) for k in range(5)]
        models[2] = started.record(
            spoilt["layer.weight"].numpy(), np.full(3, far, np.float32), np.array(1, np.int64)
        )
        people = started.aggregate(started.reply(k, models[k]) for k in range(5)).report
        chosen.append([p.weight for p in people.participants])
    assert chosen[0] == chosen[1]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"clients": 4}, "malicious-clients is 1, .* at least 5 .* 4 clients are asked; .* to 0"),
        ({"clients": 9, "malicious_clients": 4}, "needs at least 11 .* set it to 3 or less"),
        ({"clients": 2, "malicious_clients": 0}, "at least 3 clients in a round.*at least 3 cl"),
        ({"clients": 10, "fraction_train": 0.4}, "but 4 clients are asked"),
        ({"clients": 6, "krum_selected": 4}, "krum-selected is 4, .* at most 3 can be chosen"),
    ],
)
def test_rounds_too_small_for_the_guarantee_are_refused(begin, keys, words):
    with pytest.raises(UserError, match=words):
        begin(strategy="multikrum", **keys)


def test_a_round_with_too_few_replies_does_not_count(begin):
    started = begin(strategy="krum", clients=6, malicious_clients=1)
    result = started.aggregate([started.reply(k) for k in range(4)])
    assert result.arrays is None
    assert result.report.failures[3] == "its reply is one of 4, but the round needs 5."


def test_scores_of_points_on_a_line():
    at = np.array([0.0, 1.0, 3.0, 10.0, 11.0])
    distances = (at[:, None] - at[None, :]) ** 2
    # n − f − 2 = 2 nearest: 1+9, 1+4, 4+9, 1+49, 1+64.
    assert krum_scores(distances, 1).tolist() == [10, 5, 13, 50, 65]
