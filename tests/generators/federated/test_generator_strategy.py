"""Averaging generators: who is asked what, and embeddings over those that moved them."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from fedeas_app.client import Order
from fedeas_app.errors import UserError
from fedeas_app.generators.federated.local import EMBEDDING
from fedeas_app.generators.federated.options import for_rounds
from fedeas_app.generators.federated.strategy import averaged_over_movers, make_strategy
from fedeas_app.generators.federated.transfer import NETWORK, returned
from fedeas_app.preparation import ClientPlan, Plan
from fedeas_app.strategies.registry import STRATEGIES
from fedeas_app.strategies.updates import Updates

BEFORE = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])


def test_a_row_is_the_mean_of_those_that_moved_it():
    first = np.array([[5.0, 1.0], [2.0, 2.0], [4.0, 3.0]])  # it moved rows 0 and 2
    second = np.array([[9.0, 5.0], [2.0, 2.0], [3.0, 3.0]])  # it moved row 0
    rows = averaged_over_movers(BEFORE, np.stack([first, second]), np.array([0.75, 0.25]))
    assert rows.tolist() == [[6.0, 2.0], [2.0, 2.0], [4.0, 3.0]]


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_where_all_move_all_rows_it_is_the_plain_mean(weights, seed):
    shares = np.array(weights) / sum(weights)
    after = np.random.default_rng(seed).normal(size=(len(shares), 3, 2))
    rows = averaged_over_movers(BEFORE, after, shares)
    assert rows == pytest.approx(np.tensordot(shares, after, 1))


def test_a_client_without_a_weight_moves_nothing():
    rows = averaged_over_movers(BEFORE, np.stack([BEFORE + 1, BEFORE]), np.array([0.0, 1.0]))
    assert rows.tolist() == BEFORE.tolist()


@pytest.mark.parametrize("how", ["average", "movers"])
def test_everything_else_is_averaged_over_all(configure, how):
    settings = for_rounds(configure(generator="federated", generator_embeddings=how))
    strategy = make_strategy(settings, Plan(0.0, (), {0: 1, 1: 2}, {}), [EMBEDDING, "w"])
    zeros = np.zeros((2, 3), np.float32)
    start = ArrayRecord({"w": Array(zeros), EMBEDDING: Array(zeros)})
    moved = np.array([[4, 4, 4], [0, 0, 0]], np.float32)
    with Updates(start) as models:
        models.add(0, ArrayRecord({"w": Array(moved), EMBEDDING: Array(moved)}))
        models.add(1, start)
        merged = strategy.merge(models, {0: 0.25, 1: 0.75})
    assert merged["w"].numpy().tolist() == [[1, 1, 1], [0, 0, 0]]
    row = 4 if how == "movers" else 1
    assert merged[EMBEDDING].numpy().tolist() == [[row] * 3, [0] * 3]
    assert merged[EMBEDDING].dtype == "float32"
    assert list(merged) == ["w", EMBEDDING]


@pytest.mark.parametrize("rule", ["fedavg", "fedalign", "fedavgm", "fedadam", "fedyogi"])
def test_it_is_the_rule_that_was_named(configure, rule):
    settings = for_rounds(configure(generator="federated", generator_strategy=rule))
    strategy = make_strategy(settings, Plan(0.0, (), {0: 1}, {}), [])
    assert isinstance(strategy, STRATEGIES[rule])


def test_rounds_that_ask_too_few_name_their_own_key(configure):
    keys = {"generator": "federated", "generator_fraction": 0.3, "min_replies": 2}
    with pytest.raises(UserError, match=r"only 1 client is .* or generator-fraction higher"):
        make_strategy(for_rounds(configure(**keys)), Plan(0.0, (), {0: 1, 1: 2, 2: 3}, {}), [])


class Walkers:
    """Clients of one image each that move every weight by a step of their own."""

    def __init__(self, *steps):
        self.steps = steps
        people = tuple(ClientPlan(k, 1, 0, 0, 0.0, 0.0, 0.0) for k in range(len(steps)))
        self.plan = Plan(0.0, people, {k: 100 + k for k in range(len(steps))}, {})
        self.plan.orders |= dict.fromkeys(self.plan.nodes, Order())

    def send_and_receive(self, requests, *, timeout):
        for number, request in enumerate(requests):
            request.metadata.__dict__["_message_id"] = f"id-{number}"
            yield self.reply(request.metadata.dst_node_id - 100, request)

    def reply(self, k, request):
        received = request.content["arrays"]
        w = Array(received[NETWORK].numpy().astype(np.float32) + np.float32(self.steps[k]))
        answer = {"partition-id": k, "num-examples": 1, "oui": 0.0, "loss": 1.0}
        content = {
            "arrays": returned(ArrayRecord({NETWORK: w}), received),
            "metrics": MetricRecord(answer),
        }
        return Message(RecordDict(content), reply_to=request)


@pytest.mark.parametrize("step", [2**-10, 2**-13])
def test_at_half_precision_a_mean_step_below_its_rounding_still_counts(configure, step):
    """Around 1, float16 knows steps of 2^-10: three of ten clients move it by less than half."""
    settings = configure(generator="federated", generator_transfer="float16")
    walkers = Walkers(*[step] * 3, *[0.0] * 7)
    strategy = make_strategy(for_rounds(settings), walkers.plan, ["w"])
    arrays = ArrayRecord({"w": Array(np.ones(4, np.float32))})
    for number in range(1, 21):
        arrays, _ = strategy.train(walkers, number, arrays)
    assert arrays["w"].dtype == "float32"
    assert arrays["w"].numpy() == pytest.approx(1 + 20 * 0.3 * step, abs=20 * 2**-23)


def test_at_half_precision_the_servers_momentum_grows_as_it_should(configure):
    """m_r = 0.5·m + Δ: after r rounds w has moved by Σ_i 2Δ(1 − 2^−i) = 2Δ(r − 1 + 2^−r)."""
    settings = configure(
        generator="federated", generator_transfer="float16", generator_strategy="fedavgm",
        server_momentum=0.5, server_learning_rate=1.0,
    )  # fmt: skip
    walkers, step, last = Walkers(2**-13), 2**-13, 8
    strategy = make_strategy(for_rounds(settings), walkers.plan, ["w"])
    arrays = ArrayRecord({"w": Array(np.ones(4, np.float32))})
    for number in range(1, last + 1):
        arrays, _ = strategy.train(walkers, number, arrays)
    moved = 2 * step * (last - 1 + 2**-last)
    assert arrays["w"].numpy() == pytest.approx(1 + moved, abs=last * 2**-23)


def test_at_half_precision_noise_comes_before_any_rounding(configure, monkeypatch):
    """z·C/m is 2^-14 here, a sixteenth of what float16 knows around 1."""
    monkeypatch.setattr("fedeas_app.privacy.noise.source", lambda settings, *purpose: np.ones)
    settings = configure(
        generator="federated", generator_transfer="float16", privacy="central", strategy="fedavg",
        clip_norm=1.0, generator_clip_norm=4.0, noise_multiplier=2**-14,
    )  # fmt: skip
    walkers = Walkers(*[2**-10] * 3, 0.0)
    strategy = make_strategy(for_rounds(settings), walkers.plan, ["w"])
    start = ArrayRecord({"w": Array(np.ones(4, np.float32))})
    arrays, _ = strategy.train(walkers, 1, start)
    assert arrays["w"].numpy() == pytest.approx(1 + 0.75 * 2**-10 + 2**-14, abs=2**-23)
