"""A strategy that is kept between two rounds and taken up by another process."""

import json

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord

from fedeas_app.strategies.registry import STRATEGIES
from fedeas_app.strategies.state import StrategyState

# The last two for what three clients a round allow.
KEYS = {
    "oui_window": 2, "oui_smoothing": 0.5, "fraction_train": 0.5,
    "trim_fraction": 0.4, "malicious_clients": 0,
}  # fmt: skip


def go_through(started, server_round):
    """Play a round of a strategy by its clients' made-up replies."""
    sent = started.strategy.configure_train(server_round, started.arrays, ConfigRecord(), None)
    started.sent = list(sent)
    of_node = {node: k for k, node in started.strategy.plan.nodes.items()}
    started.of_partition = {of_node[msg.metadata.dst_node_id]: msg for msg in started.sent}
    for number, msg in enumerate(started.sent):
        msg.metadata.__dict__["_message_id"] = f"id-{number}"
    replies = [started.reply(k, oui=0.3 + 0.05 * k + 0.01 * server_round) for k in cohort(started)]
    result = started.aggregate(replies, server_round)
    started.arrays = result.arrays
    return result


def cohort(started):
    return sorted(started.of_partition)


def asked(started):
    return [dict(msg.content["config"]) for msg in started.sent]


def arrays_of(record):
    return {name: array.numpy() for name, array in record.items()}


def same(first, second):
    return list(first) == list(second) and all(
        np.array_equal(first[name], second[name]) and first[name].dtype == second[name].dtype
        for name in first
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_goes_on_as_if_never_interrupted(begin, strategy):
    whole, broken, other = (begin(clients=6, strategy=strategy, **KEYS) for _ in range(3))
    other.strategy.restore(broken.strategy.state())  # all three are of one run
    whole.strategy.restore(broken.strategy.state())
    for number in (1, 2, 3):
        go_through(whole, number)
        go_through(broken, number)
    state = broken.strategy.state()
    kept = json.loads(json.dumps(state.values))  # what a file would hold
    arrays = ArrayRecord(dict(state.arrays))
    whole.strategy.checkpointed()
    other.strategy.restore(StrategyState(arrays, kept))
    other.arrays = broken.arrays
    for number in (4, 5):
        expected, found = go_through(whole, number), go_through(other, number)
        assert same(arrays_of(found.arrays), arrays_of(expected.arrays))
        assert found.report == expected.report
        assert asked(other) == asked(whole)


@pytest.mark.parametrize("strategy", ["scaffold", "moon"])
def test_clients_are_told_which_state_a_checkpoint_needs(begin, strategy):
    started = begin(clients=3, strategy=strategy)
    go_through(started, 1)
    started.strategy.checkpointed()
    go_through(started, 2)
    go_through(started, 3)
    assert {(a["state-round"], a["state-checkpoint"]) for a in asked(started)} == {(2, 1)}


def test_what_goes_beside_the_model_is_as_before(begin):
    started, other = (begin(clients=2, strategy="scaffold") for _ in range(2))
    go_through(started, 1)
    other.strategy.restore(started.strategy.state())
    other.arrays = started.arrays
    for one in (started, other):
        go_through(one, 2)
    first, second = (arrays_of(one.sent[0].content["extras"]) for one in (started, other))
    assert same(first, second)
    assert any(array.any() for array in first.values())
