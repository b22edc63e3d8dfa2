"""Averaging generators: who is asked what, and embeddings over those that moved them."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from hypothesis import given
from hypothesis import strategies as st

from fedeas_app.generators.federated.local import EMBEDDING
from fedeas_app.generators.federated.options import for_rounds
from fedeas_app.generators.federated.strategy import averaged_over_movers, make_strategy
from fedeas_app.preparation import Plan
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
