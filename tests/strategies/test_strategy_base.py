"""Who takes part, which replies count, and what is said about the others."""

import gc
import logging
import re
import weakref

import numpy as np
import pytest
from fake_grid import by_superlink
from flwr.app import Array, ArrayRecord

from fedeas_app.errors import UserError
from fedeas_app.strategies import registry as strategies
from fedeas_app.strategies.report import Participant, RoundReport


def cohorts(start, rounds=6, **keys):
    return [start(server_round=r, **keys).strategy.cohort(r) for r in range(1, rounds + 1)]


def test_cohort_depends_on_the_seed_and_the_round_alone(begin):
    keys = {"clients": 20, "fraction_train": 0.25}
    drawn = cohorts(begin, **keys)
    assert drawn == cohorts(begin, nodes=list(range(500, 520)), **keys)
    assert drawn == cohorts(begin, strategy="fedoui", **keys)
    assert drawn != cohorts(begin, seed=1, **keys)
    for cohort in drawn:
        assert cohort == sorted(set(cohort))
        assert len(cohort) == 5
        assert all(type(k) is int and 0 <= k < 20 for k in cohort)
    assert len({tuple(cohort) for cohort in drawn}) == 6


def test_every_client_has_its_turn(begin):
    strategy = begin(clients=10, fraction_train=0.3).strategy
    turns = np.bincount(np.concatenate([strategy.cohort(r) for r in range(1, 1001)]), minlength=10)
    # 300 turns each, with a standard deviation of √(1000·0.3·0.7) = 14.5.
    assert turns.sum() == 3000
    assert abs(turns - 300).max() < 5 * 14.5


@pytest.mark.parametrize(
    ("clients", "fraction", "size"), [(4, 1.0, 4), (10, 0.25, 2), (3, 0.01, 1), (7, 0.5, 4)]
)
def test_cohort_has_the_share_asked_for_and_never_nobody(begin, clients, fraction, size):
    assert len(begin(clients=clients, fraction_train=fraction).sent) == size


def test_each_client_gets_the_model_the_round_and_its_own_order(begin):
    started = begin(clients=5, server_round=9)
    assert [msg.metadata.dst_node_id for msg in started.sent] == [1000, 999, 998, 997, 996]
    for k, msg in started.of_partition.items():
        assert msg.metadata.message_type == "train"
        assert set(msg.content) == {"arrays", "config"}
        order = {"beta": 2.0 + k, "share": 10 * k, "generator-digest": ""}
        assert dict(msg.content["config"]) == {**order, "server-round": 9}
        arrays = msg.content["arrays"]
        assert all(arrays[name].data == started.arrays[name].data for name in started.arrays)


def test_only_the_cohort_is_addressed(begin):
    started = begin(clients=12, fraction_train=0.5, server_round=4)
    assert sorted(started.of_partition) == started.strategy.cohort(4)


def test_nobody_is_asked_to_evaluate(begin):
    started = begin()
    assert list(started.strategy.configure_evaluate(1, started.arrays, None, None)) == []
    assert started.strategy.aggregate_evaluate(1, []) is None


def test_the_model_is_the_weighted_mean_and_the_report_says_who_counted(begin):
    sizes, losses = [10, 30, 60], [3.0, 2.0, 1.0]
    started = begin(clients=3, sizes=sizes)
    result = started.aggregate(started.reply(k, loss=losses[k], oui=0.1 * k) for k in (2, 0, 1))
    weights = [0.1, 0.3, 0.6]
    for name in ("layer.weight", "layer.bias"):
        expected = sum(
            w * started.model(k)[name].numpy().astype(np.float64) for k, w in enumerate(weights)
        )
        assert np.array_equal(result.arrays[name].numpy(), expected.astype(np.float32))
    assert result.arrays["steps"].numpy() == 20
    drifts = drifts_by_hand(started, weights)
    assert result.report.participants == tuple(
        Participant(
            k, sizes[k], 0.1 * k, losses[k], 1.0, weights[k], {"drift": pytest.approx(drifts[k])}
        )
        for k in range(3)
    )
    assert result.report.drift == pytest.approx(np.dot(weights, drifts))
    assert result.report.failures == {}
    # 0.1·3 + 0.3·2 + 0.6·1 = 1.5, and 1 / (0.01 + 0.09 + 0.36).
    assert result.report.train_loss == pytest.approx(1.5)
    assert result.report.effective_clients == pytest.approx(1 / 0.46)
    assert dict(result.metrics) == {"train-loss": pytest.approx(1.5)}


def drifts_by_hand(started, weights):
    """‖Δ_k − Δ̄‖² / ‖Δ̄‖² over the parameters; the round starts from zeros, so that Δ_k is w_k."""

    def flat(k):
        arrays = [started.model(k)[name].numpy().ravel() for name in ("layer.weight", "layer.bias")]
        return np.concatenate(arrays).astype(np.float64)

    mean = sum(w * flat(k) for k, w in enumerate(weights))
    return [((flat(k) - mean) ** 2).sum() / (mean**2).sum() for k in range(len(weights))]


def test_equal_models_do_not_drift_and_a_model_that_stands_still_has_no_drift(begin):
    started = begin(clients=3)
    result = started.aggregate(started.reply(k, started.model(1)) for k in range(3))
    assert result.report.drift == pytest.approx(0.0, abs=1e-12)
    result = started.aggregate(started.reply(k, started.arrays) for k in range(3))
    assert result.report.drift is None
    assert [p.details for p in result.report.participants] == [{}, {}, {}]


STRATEGIES = sorted(strategies.STRATEGIES)
CHOOSING = {"krum", "multikrum"}  # some weigh nothing
ROBUST = CHOOSING | {"fedmedian", "fedtrimmedavg"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_bits_do_not_depend_on_the_order_of_arrival_or_on_node_ids(begin, strategy):
    def outcome(order, nodes=None):
        started = begin(clients=6, strategy=strategy, nodes=nodes)
        result = started.aggregate(started.reply(k) for k in order)
        return [array.data for array in result.arrays.values()], result.report

    expected = outcome(range(6))
    weights = [p.weight for p in expected[1].participants]
    assert sum(weights) == pytest.approx(1.0)
    assert min(weights) >= 0 if strategy in CHOOSING else min(weights) > 0
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(6).tolist()
        assert outcome(order, nodes=[3, 9, 4, 8, 5, 7]) == expected


def spoiled(started, partition, name, value):
    arrays = started.model(partition)
    arrays[name] = Array(value)
    return started.reply(partition, arrays)


BAD_ARRAYS = {
    "shape": ("layer.bias", np.zeros(4, np.float32), r"layer.bias is float32\[4\]"),
    "dtype": ("layer.bias", np.zeros(3), "layer.bias is float64"),
    "float counter": ("steps", np.array(1.0), "steps is float64"),
    "nan": ("layer.bias", np.array([0, np.nan, 0], np.float32), "layer.bias holds values"),
    "inf": ("layer.weight", np.full((2, 3), np.inf, np.float32), "layer.weight holds values"),
    "name": ("extra", np.zeros(1, np.float32), "names of its arrays"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_a_malformed_model_does_not_count_and_the_others_do(begin, case, caplog):
    name, value, reason = BAD_ARRAYS[case]
    started = begin(clients=3, server_round=5)
    with caplog.at_level(logging.WARNING, logger="flwr"):
        result = started.aggregate(
            [started.reply(0), spoiled(started, 1, name, value), started.reply(2)], server_round=5
        )
    assert [p.partition for p in result.report.participants] == [0, 2]
    assert list(result.report.failures) == [1]
    assert re.search(reason, result.report.failures[1])
    # n = 10 and 12: weights 10/22 and 12/22.
    weights = [p.weight for p in result.report.participants]
    assert weights == pytest.approx([10 / 22, 12 / 22])
    assert all(np.isfinite(array.numpy()).all() for array in result.arrays.values())
    assert "Round 5: 1 client does not count ([1])" in caplog.text
    assert result.report.failures[1] in caplog.text


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        ({"num_examples": 0}, "num-examples is 0"),
        ({"num_examples": -5}, "num-examples is -5"),
        ({"num_examples": 10.0}, "num-examples is 10.0"),
        ({"num_examples": float("nan")}, "num-examples is nan"),
        ({"num_examples": [10]}, r"num-examples is \[10\]"),
        ({"num_examples": None}, "num-examples is None"),
        ({"num_examples": 11}, "num-examples is 11, but 10 when the client prepared"),
        ({"num_examples": 10_000}, "num-examples is 10000, but 10 when the client prepared"),
        ({"oui": 1.001}, "oui is 1.001, not between 0 and 1"),
        ({"oui": -1e-9}, "oui is -1e-09, not between 0 and 1"),
        ({"oui": float("nan")}, "oui is nan, not a finite number"),
        ({"oui": [0.5]}, r"oui is \[0.5\], not a finite number"),
        ({"oui": None}, "oui is None, not a finite number"),
        ({"loss": float("nan")}, "loss is nan, not a finite number"),
        ({"loss": float("inf")}, "loss is inf, not a finite number"),
        ({"loss": None}, "loss is None, not a finite number"),
    ],
)
@pytest.mark.parametrize("strategy", ["fedavg", "fedoui", "scaffold"])
def test_impossible_metrics_do_not_count(begin, strategy, metrics, reason):
    started = begin(clients=3, strategy=strategy)
    replies = [started.reply(0, **metrics), started.reply(1), started.reply(2)]
    result = started.aggregate(replies)
    assert [p.partition for p in result.report.participants] == [1, 2]
    assert sum(p.weight for p in result.report.participants) == pytest.approx(1.0)
    assert re.match(reason, result.report.failures[0])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_reply_with_nan_is_left_out_and_the_model_stays_finite(begin, strategy):
    started = begin(clients=6, strategy=strategy)
    spoilt = spoiled(started, 1, "layer.bias", np.full(3, np.nan, np.float32))
    result = started.aggregate([started.reply(0), spoilt, *(started.reply(k) for k in range(2, 6))])
    assert list(result.report.failures) == [1]
    assert all(np.isfinite(array.numpy()).all() for array in result.arrays.values())
    assert sum(p.weight for p in result.report.participants) == pytest.approx(1.0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_arrays_keep_their_types_and_counters_are_never_averaged(begin, strategy):
    started = begin(clients=5, strategy=strategy)
    result = started.aggregate(started.reply(k) for k in range(5))
    assert list(result.arrays) == list(started.arrays)
    for name, array in started.arrays.items():
        assert result.arrays[name].numpy().dtype == array.numpy().dtype
        assert result.arrays[name].numpy().shape == array.numpy().shape
    steps, said = result.arrays["steps"].numpy(), [0, 10, 20, 30, 40]
    assert steps in said if strategy in ROBUST else steps == 40


@pytest.mark.parametrize("strategy", ["fedavg", "fedprox", "scaffold", "moon", "fedadam"])
def test_unequal_clients_weigh_by_their_examples(begin, strategy):
    started = begin(clients=3, strategy=strategy, sizes=[10, 30, 60])
    result = started.aggregate(started.reply(k) for k in (2, 0, 1))
    assert [p.weight for p in result.report.participants] == pytest.approx([0.1, 0.3, 0.6])


def test_a_boolean_count_is_refused(begin):
    started = begin(clients=2)
    reply = started.reply(0)
    reply.content["metrics"].__dict__["_data"]["num-examples"] = True  # past Flower's own check
    result = started.aggregate([reply, started.reply(1)])
    assert result.report.failures == {0: "num-examples is True, not a whole number of at least 1"}


@pytest.mark.parametrize("oui", [0.0, 1.0, 0, 1])
def test_the_ends_of_the_scale_count(begin, oui):
    started = begin(clients=2, strategy="fedoui")
    result = started.aggregate([started.reply(0, oui=oui), started.reply(1)])
    assert len(result.report.participants) == 2


def test_a_reply_without_records_does_not_count(begin):
    started = begin(clients=2)
    empty = started.reply(0)
    empty.content.clear()
    without_model = started.reply(0, arrays=ArrayRecord())
    for reply in (empty, without_model):
        result = started.aggregate([reply, started.reply(1)])
        assert list(result.report.failures) == [0]


def test_a_failed_client_is_named_with_its_own_words(begin):
    started = begin(clients=3)
    text = "<class 'fedeas_app.errors.UserError'>:<'No disk left; free some.'>"
    result = started.aggregate([started.reply(2), started.error(1, text), started.reply(0)])
    assert result.report.failures == {1: "No disk left; free some."}
    assert [p.partition for p in result.report.participants] == [0, 2]


def test_errors_made_up_by_the_superlink_are_attributed_to_the_client(begin):
    started = begin(clients=4, nodes=[1, 22, 33, 44])  # a node may even have the SuperLink's id
    replies = [started.reply(0), started.reply(1), by_superlink(started.error(3, "Node is gone"))]
    result = started.aggregate([*replies, started.reply(2)])
    assert result.report.failures == {3: "Node is gone"}


def test_late_clients_are_named_with_the_timeout(begin):
    started = begin(clients=4, round_timeout=12.5)
    result = started.aggregate([started.reply(2)])
    assert result.report.failures == dict.fromkeys([0, 1, 3], "no reply within 12.5 seconds")


def test_a_client_left_out_of_the_round_is_not_late(begin):
    started = begin(clients=8, fraction_train=0.5, server_round=3)
    cohort = started.strategy.cohort(3)
    result = started.aggregate([started.reply(k) for k in cohort], server_round=3)
    assert result.report.failures == {}


def test_a_round_without_a_usable_reply_does_not_count(begin):
    started = begin(clients=6, server_round=2)
    replies = [
        started.error(0, "<class 'RuntimeError'>:<'Out of memory.'>"),
        started.error(1, "<class 'RuntimeError'>:<'Out of memory.'>"),
        started.reply(2, oui=float("nan")),
        started.error(3, "<class 'RuntimeError'>:<'Out of memory.'>"),
    ]
    result = started.aggregate(replies, server_round=2)
    assert (result.arrays, result.metrics) == (None, None)
    assert result.report.participants == ()
    late = "no reply within 3600 seconds"
    assert result.report.failures == {
        0: "Out of memory.",
        1: "Out of memory.",
        2: "oui is nan, not a finite number",
        3: "Out of memory.",
        4: late,
        5: late,
    }
    assert result.report.train_loss is None
    assert result.report.effective_clients is None


def test_no_reply_at_all_does_not_count(begin):
    result = begin(clients=3).aggregate([])
    assert result.arrays is None
    assert set(result.report.failures) == {0, 1, 2}


@pytest.mark.parametrize(("wanted", "counts"), [(2, True), (3, False)])
def test_a_round_with_fewer_replies_than_wanted_does_not_count(begin, wanted, counts):
    started = begin(clients=4, min_replies=wanted)
    replies = [started.reply(0), started.error(1, "Out of memory."), started.reply(3)]
    result = started.aggregate(replies)
    assert (result.arrays is not None) is counts
    if not counts:
        text = "its reply is one of 2, but the round needs 3."
        late = "no reply within 3600 seconds"
        assert result.report.failures == {0: text, 1: "Out of memory.", 2: late, 3: text}


def test_more_replies_cannot_be_wanted_than_clients_are_asked(begin):
    with pytest.raises(UserError, match="min-replies is 3, but only 2 clients are asked"):
        begin(clients=4, fraction_train=0.5, min_replies=3)


def test_effective_clients_counts_equal_ones():
    equal = RoundReport(tuple(Participant(k, 1, 0.5, 0.0, weight=1 / 8) for k in range(8)))
    assert equal.effective_clients == pytest.approx(8)


def test_a_round_holds_no_reply_but_the_one_it_works_on(begin):
    started = begin(clients=30)
    made, most = [], 0

    def arriving():
        nonlocal most
        for k in range(30):
            made.append(weakref.ref(reply := started.reply(k)))
            most = max(most, sum(ref() is not None for ref in made))
            yield reply
            del reply

    gc.disable()
    try:
        started.aggregate(arriving())
    finally:
        gc.enable()
    assert most <= 2
