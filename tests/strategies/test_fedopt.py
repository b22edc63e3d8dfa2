"""Server steps against their equations written out in NumPy, over three rounds."""

import numpy as np
import pytest
from flwr.app import ConfigRecord

from fedeas_app.errors import UserError

NAMES = ("layer.weight", "layer.bias")


def averages(started, server_round):
    """What FedAvg would make of a round's replies, as float64."""
    sizes = np.array([10.0, 11.0, 12.0])
    models = [started.model(k + 10 * server_round) for k in range(3)]
    return {
        name: sum(n / 33 * m[name].numpy().astype(np.float64) for n, m in zip(sizes, models))  # noqa: B905  # both are three
        for name in NAMES
    }


def run(started, rounds):
    """Apply a strategy to some rounds and yield what it was given and what it made."""
    strategy, arrays = started.strategy, started.arrays
    for server_round in range(1, rounds + 1):
        sent = list(strategy.configure_train(server_round, arrays, ConfigRecord(), None))
        for number, msg in enumerate(sent):
            msg.metadata.__dict__["_message_id"] = f"id-{number}"
        started.of_partition = dict(enumerate(sent))
        replies = [started.reply(k, started.model(k + 10 * server_round)) for k in (2, 0, 1)]
        before = {name: arrays[name].numpy().astype(np.float64) for name in NAMES}
        arrays = started.aggregate(replies, server_round).arrays
        yield server_round, before, averages(started, server_round), arrays


def fedavgm(keys):
    v = dict.fromkeys(NAMES, 0.0)

    def step(name, server_round, w, delta):
        v[name] = keys["server_momentum"] * v[name] - delta
        return w - keys["server_learning_rate"] * v[name]

    return step


def adaptive(keys, second_moment, corrected):
    b1, b2 = keys["server_momentum"], keys["server_decay"]
    m, v = dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0.0)

    def step(name, server_round, w, delta):
        m[name] = b1 * m[name] + (1 - b1) * delta
        v[name] = second_moment(v[name], delta**2, b2)
        eta = keys["server_learning_rate"]
        if corrected:
            eta *= np.sqrt(1 - b2 ** (server_round + 1)) / (1 - b1 ** (server_round + 1))
        return w + eta * m[name] / (np.sqrt(v[name]) + keys["server_tau"])

    return step


def adam(v, square, b2):
    return b2 * v + (1 - b2) * square


def yogi(v, square, b2):
    return v - (1 - b2) * square * np.sign(v - square)


RULES = {
    "fedavgm": fedavgm,
    "fedadam": lambda keys: adaptive(keys, adam, corrected=True),
    "fedyogi": lambda keys: adaptive(keys, yogi, corrected=False),
}
KEYS = [
    {"server_learning_rate": 0.5, "server_momentum": 0.9, "server_decay": 0.99, "server_tau": 1e-3},
    {"server_learning_rate": 0.1, "server_momentum": 0.3, "server_decay": 0.5, "server_tau": 0.1},
]


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("strategy", RULES)
def test_three_rounds_by_hand(begin, strategy, keys):
    started = begin(strategy=strategy, **keys)
    rule = RULES[strategy](keys)
    for server_round, before, average, arrays in run(started, 3):
        for name in NAMES:
            expected = rule(name, server_round, before[name], average[name] - before[name])
            found = arrays[name].numpy()
            assert found.dtype == np.float32
            assert np.allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_without_momentum_and_with_a_whole_step_it_is_fedavg(begin):
    keys = {"server_learning_rate": 1.0, "server_momentum": 0.0}
    plain, stepped = begin(strategy="fedavg"), begin(strategy="fedavgm", **keys)
    for one, other in zip(run(plain, 2), run(stepped, 2), strict=True):
        assert [a.data for a in one[3].values()] == [a.data for a in other[3].values()]


@pytest.mark.parametrize(("strategy", "step"), [("fedavgm", 1.0), ("fedadam", 0.01)])
def test_the_server_has_a_step_of_its_own_for_each_rule(configure, strategy, step):
    assert configure(strategy=strategy).server_step == step
    assert configure(strategy=strategy, server_learning_rate=0.3).server_step == 0.3


@pytest.mark.parametrize("strategy", RULES)
def test_buffers_are_averaged_and_take_no_step(begin, strategy):
    """The bias stands for a buffer here: it is not among the trainable parameters."""
    started = begin(strategy=strategy, server_learning_rate=0.5)
    started.strategy._trainable = ["layer.weight"]
    for _, _, average, arrays in run(started, 2):
        assert np.allclose(arrays["layer.bias"].numpy(), average["layer.bias"], atol=1e-6)
        assert not np.allclose(arrays["layer.weight"].numpy(), average["layer.weight"], atol=1e-2)


def test_a_step_out_of_range_ends_the_run_with_advice(begin):
    started = begin(strategy="fedavgm", server_learning_rate=3e38)
    with (
        np.errstate(all="ignore"),
        pytest.raises(UserError, match=r"step of round \d .* server-learning-rate below 3e\+38"),
    ):
        list(run(started, 3))
