"""The server's control variate: what is sent, what comes back, what must not."""

import re

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord

from fedeas_app.client import Order
from fedeas_app.preparation import ClientPlan

NAMES = ["layer.weight", "layer.bias"]


def extras(started):
    return [msg.content["extras"] for msg in started.sent]


def following(started, server_round=2):
    """Return the messages of another round."""
    return list(
        started.strategy.configure_train(server_round, started.arrays, ConfigRecord(), None)
    )


def test_the_first_variate_is_zero_for_each_parameter_and_no_counter(begin):
    for sent in extras(begin(strategy="scaffold")):
        assert list(sent) == NAMES
        assert [array.numpy().shape for array in sent.values()] == [(2, 3), (3,)]
        assert all(array.numpy().dtype == np.float32 for array in sent.values())
        assert not any(array.numpy().any() for array in sent.values())


# p_k of four clients, of 10, 11, 12 and 13 real images and 5 synthetic ones each.
SHARES = [
    ({"scaffold_weights": "clients"}, [1 / 4] * 4),
    ({"scaffold_weights": "examples"}, [10 / 46, 11 / 46, 12 / 46, 13 / 46]),
    ({"weight_by": "total"}, [15 / 66, 16 / 66, 17 / 66, 18 / 66]),
]


def moved(started, shares, partitions):
    """Σ p_k Δc_k, by parameter."""
    return {
        name: sum(shares[k] * started.change(k)[name].numpy() for k in partitions) for name in NAMES
    }


@pytest.mark.parametrize(("keys", "shares"), SHARES)
def test_after_a_round_of_all_clients_it_is_the_mean_of_theirs(begin, keys, shares):
    started = begin(clients=4, strategy="scaffold", **keys)
    started.aggregate(started.reply(k) for k in (1, 3, 2, 0))
    expected = moved(started, shares, range(4))
    (sent, *_) = following(started)
    for name in NAMES:
        assert np.allclose(sent.content["extras"][name].numpy(), expected[name], atol=1e-6)
        assert expected[name].any()


@pytest.mark.parametrize(("keys", "shares"), SHARES)
def test_it_moves_by_the_share_of_the_clients_that_took_part(begin, keys, shares):
    started = begin(clients=4, strategy="scaffold", fraction_train=0.75, **keys)
    first, *others = started.strategy.cohort(1)
    # One of the three fails: |S| = 2 of K = 4.
    started.aggregate([*(started.reply(k) for k in others), started.error(first, "gone")])
    expected = moved(started, shares, others)
    (sent, *_) = following(started)
    for name in NAMES:
        assert np.allclose(sent.content["extras"][name].numpy(), expected[name], atol=1e-6)


def test_with_clients_alike_it_is_the_rule_of_the_paper(begin):
    started = begin(clients=8, strategy="scaffold", fraction_train=0.5, scaffold_weights="clients")
    cohort = started.strategy.cohort(1)
    result = started.aggregate([started.reply(k) for k in cohort])
    assert [p.weight for p in result.report.participants] == pytest.approx([0.25] * 4)
    (sent, *_) = following(started)
    for name in NAMES:  # (|S|/K)·mean(Δc_k)
        mean = np.mean([started.change(k)[name].numpy() for k in cohort], axis=0)
        assert np.allclose(sent.content["extras"][name].numpy(), 4 / 8 * mean, atol=1e-6)
    model = np.mean([started.model(k)["layer.bias"].numpy() for k in cohort], axis=0)
    assert np.allclose(result.arrays["layer.bias"].numpy(), model, atol=1e-6)


def broken(started, partition, name, value):
    change = started.change(partition)
    change[name] = Array(value)
    return change


NAN = np.array([0, np.nan, 0], np.float32)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda s: broken(s, 1, "layer.bias", NAN), "layer.bias holds values that are not finite"),
        (lambda s: broken(s, 1, "layer.bias", np.zeros(4, np.float32)), r"float32\[4\]"),
        (lambda s: broken(s, 1, "layer.bias", np.zeros(3)), "layer.bias is float64"),
        (lambda s: broken(s, 1, "steps", np.zeros(1, np.float32)), "names of its arrays"),
        (lambda s: ArrayRecord({"layer.weight": s.change(1)["layer.weight"]}), "names"),
        (lambda s: ArrayRecord(), "names"),
    ],
)
def test_a_malformed_variate_does_not_count_and_leaves_no_trace(begin, spoil, reason):
    started = begin(clients=3, strategy="scaffold", scaffold_weights="clients")
    spoilt = started.reply(1)
    del spoilt.content["extras"]
    if bad := spoil(started):
        spoilt.content["extras"] = bad
    result = started.aggregate([started.reply(0), spoilt, started.reply(2)])
    assert re.match("beside the model, .*" + reason, result.report.failures[1])
    assert [p.partition for p in result.report.participants] == [0, 2]
    (sent, *_) = following(started)
    for name in NAMES:
        total = started.change(0)[name].numpy() + started.change(2)[name].numpy()
        assert np.allclose(sent.content["extras"][name].numpy(), total / 3, atol=1e-6)


def test_a_variate_is_not_expected_where_none_was_sent(begin):
    started = begin(clients=2, strategy="fedavg")
    result = started.aggregate([started.reply(0, extras=started.model(0)), started.reply(1)])
    assert list(result.report.failures) == [0]


@pytest.mark.parametrize("weights", ["clients", "examples"])
def test_a_client_that_comes_later_leaves_it_the_mean_of_all(begin, weights):
    """Two clients with c_k = Δ_0 and Δ_1; then a third with c_2 = 0: c = Σ p_k c_k all the same."""
    started = begin(clients=2, strategy="scaffold", scaffold_weights=weights)
    started.aggregate([started.reply(0), started.reply(1)])
    sizes = [10, 11, 30] if weights == "examples" else [1, 1, 1]
    started.strategy.plan.admit(77, ClientPlan(2, 30, 0, 0, 0.0, 0.0, 0.0), Order())
    expected = moved(started, [n / sum(sizes) for n in sizes], [0, 1])
    (sent, *_) = following(started)
    for name in NAMES:
        assert np.allclose(sent.content["extras"][name].numpy(), expected[name], atol=1e-6)


def test_clients_go_on_from_their_last_reply_that_counted(begin):
    started = begin(clients=3, strategy="scaffold", server_round=5)
    keys = {msg.content["config"]["state-key"] for msg in started.sent}
    assert [msg.content["config"]["state-round"] for msg in started.sent] == [0, 0, 0]
    started.aggregate([started.reply(0), started.error(1, "gone"), started.reply(2)], 5)
    told = [msg.content["config"] for msg in following(started, 6)]
    assert [config["state-round"] for config in told] == [5, 0, 5]
    assert {config["state-key"] for config in told} == keys
    assert len(keys) == 1
    again = begin(clients=3, strategy="scaffold")  # the same seed, another run
    assert again.sent[0].content["config"]["state-key"] not in keys


@pytest.mark.parametrize("strategy", ["scaffold", "moon"])
def test_a_lost_state_is_in_the_report(begin, strategy):
    started = begin(clients=2, strategy=strategy)
    result = started.aggregate([started.reply(0, state_lost=1), started.reply(1)])
    assert [p.details["state-lost"] for p in result.report.participants] == [1, 0]
    result = started.aggregate([started.reply(0, state_lost=None), started.reply(1)])
    assert result.report.failures == {0: "state-lost is None, not a finite number"}


@pytest.mark.parametrize("strategy", ["fedavg", "fedprox", "fedoui", "fedadam"])
def test_others_send_and_ask_for_nothing_beside_the_model(begin, strategy):
    for msg in begin(strategy=strategy).sent:
        assert set(msg.content) == {"arrays", "config"}
        assert "state-key" not in msg.content["config"]


def test_moon_has_a_state_and_sends_nothing_beside_the_model(begin):
    for msg in begin(strategy="moon").sent:
        assert set(msg.content) == {"arrays", "config"}
        assert re.fullmatch("[0-9a-f]{32}", msg.content["config"]["state-key"])
