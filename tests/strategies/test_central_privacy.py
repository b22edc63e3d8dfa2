"""Noise that the server adds: its scale, the weights, and what goes on after it."""

import numpy as np
import pytest

NAMES = ("layer.weight", "layer.bias")
KEYS = {"privacy": "central", "clip_norm": 0.5, "noise_multiplier": 2.0, "noise_source": "seed"}


def flat(record):
    return np.concatenate([record[name].numpy().ravel() for name in NAMES]).astype(np.float64)


def clipped(started, k):
    update = flat(started.model(k))  # the round starts from zeros
    return update * min(1.0, 0.5 / np.linalg.norm(update))


@pytest.mark.parametrize("strategy", ["fedavg", "fedprox", "moon"])
def test_clients_weigh_alike_whatever_they_say(begin, strategy):
    started = begin(strategy=strategy, clients=4, sizes=[1, 10, 100, 1000], **KEYS)
    people = started.aggregate(started.reply(k) for k in range(4)).report.participants
    assert [p.weight for p in people] == [0.25] * 4


def test_noise_has_the_deviation_of_the_multiplier_times_what_a_client_can_change(begin):
    """z·C/m of m clients, over many rounds with a stream each."""
    added = []
    for number in range(1, 301):
        started = begin(clients=4, server_round=number, **KEYS)
        result = started.aggregate((started.reply(k) for k in range(4)), server_round=number)
        added.append(flat(result.arrays) - np.mean([clipped(started, k) for k in range(4)], axis=0))
        assert result.arrays["steps"].numpy() == 30
    values = np.concatenate(added)
    assert values.std() == pytest.approx(2.0 * 0.5 / 4, rel=6 / (2 * values.size) ** 0.5)
    assert abs(values.mean()) < 6 * 0.25 / values.size**0.5


def test_with_fewer_replies_the_noise_grows(begin, monkeypatch):
    monkeypatch.setattr("fedeas_app.privacy.noise.source", lambda settings, *purpose: np.ones)
    for present in ([0, 1, 2, 3], [1, 3]):
        started = begin(clients=4, **KEYS)
        result = started.aggregate(started.reply(k) for k in present)
        mean = np.mean([clipped(started, k) for k in present], axis=0)
        assert np.allclose(flat(result.arrays) - mean, 2.0 * 0.5 / len(present), atol=1e-6)


def test_the_systems_noise_does_not_follow_from_the_seed(begin):
    keys = KEYS | {"noise_source": "system"}
    runs = [begin(clients=3, **keys) for _ in range(2)]
    found = [flat(one.aggregate(one.reply(k) for k in range(3)).arrays) for one in runs]
    assert not np.array_equal(*found)


@pytest.mark.parametrize("strategy", ["fedavgm", "fedadam", "fedyogi"])
def test_a_servers_step_is_taken_along_what_is_already_private(begin, strategy, monkeypatch):
    seen = []
    started = begin(strategy=strategy, clients=3, **KEYS)
    step = started.strategy.step
    monkeypatch.setattr(started.strategy, "step", lambda n, a: (seen.append(a), step(n, a))[1])
    plain = begin(strategy="fedavg", clients=3, **KEYS)
    started.aggregate(started.reply(k) for k in range(3))
    expected = plain.aggregate(plain.reply(k) for k in range(3)).arrays
    assert np.array_equal(flat(seen[0]), flat(expected))


def test_local_privacy_leaves_the_servers_part_as_it_is(begin):
    """Noise makes every update longer than the limit: to clip it again would undo the mean."""
    keys = {"privacy": "local", "clip_norm": 0.5, "strategy": "fedoui"}
    private, plain = begin(clients=4, **keys), begin(clients=4, strategy="fedoui")
    both = [one.aggregate(one.reply(k) for k in range(4)) for one in (private, plain)]
    assert np.array_equal(flat(both[0].arrays), flat(both[1].arrays))
    assert both[0].report == both[1].report
