"""The plan of a federation against the budget of its pooled counts, which no server sees."""

import math

import numpy as np
import pytest
from fake_grid import FakeGrid, node_ids
from flwr.app import Error, Message, MetricRecord, RecordDict

from fedeas_app import budget, preparation
from fedeas_app.client import Client, Synthesis
from fedeas_app.data import load_split, partition
from fedeas_app.errors import UserError
from fedeas_app.federation import connect
from fedeas_app.preparation import prepare


def pooled(settings, clients=4):
    """n_k^c from the partition itself."""
    labels = load_split(settings, "train").labels
    parts = partition(labels, clients, settings)
    return np.array([[(labels[part] == c).sum() for c in range(10)] for part in parts])


def plan_of(settings, grid=None):
    grid = grid or FakeGrid(settings)
    return prepare(grid, connect(grid, settings), settings)


@pytest.fixture
def with_counts(monkeypatch):
    """Give clients counts of our own, and images that cost nothing."""

    def put(table):
        table = np.asarray(table)
        row = property(lambda self: table[self.partition_id][None, :].astype(np.int64))
        monkeypatch.setattr(Client, "counts", row)
        monkeypatch.setattr(Client, "synthesise", synthesise)
        return table

    def synthesise(self, order):
        labels = np.repeat(np.arange(self.counts.shape[1]), self.need(order))
        return Synthesis(np.empty((len(labels), 0)), labels, len(labels))

    return put


def check_plan(plan, counts, expected):
    """Compare every number of a plan with what the full table of counts gives."""
    assert [c.partition_id for c in plan.clients] == list(range(len(counts)))
    assert [c.num_examples for c in plan.clients] == counts.sum(axis=1).tolist()
    assert [c.synthetic for c in plan.clients] == expected.sum(axis=1).tolist()
    assert plan.real == counts.sum()
    assert plan.synthetic == expected.sum()
    assert plan.imbalance_before == pytest.approx(budget.imbalance(counts), abs=1e-12)
    assert plan.imbalance_after == pytest.approx(budget.imbalance(counts + expected), abs=1e-12)


def test_a_roll_call_says_who_is_there_in_order_of_partition(configure):
    settings = configure()
    grid = FakeGrid(settings, shuffle=3)
    plan = preparation.roll_call(grid, connect(grid, settings), settings)
    assert plan.nodes == {partition: node for node, partition in grid.partitions.items()}
    assert [c.partition_id for c in plan.clients] == [0, 1, 2, 3]
    assert [c.num_examples for c in plan.clients] == pooled(settings).sum(axis=1).tolist()


def test_two_that_are_one_partition_are_no_roll_call(configure):
    settings = configure()
    grid = FakeGrid(settings, {10: 0, 11: 1, 12: 1, 13: 2})
    with pytest.raises(UserError, match="4 SuperNodes hold only 3 different partitions"):
        preparation.roll_call(grid, [10, 11, 12, 13], settings)


def test_without_synthesis_nothing_is_asked_or_made(configure):
    settings = configure(policy="none")
    grid = FakeGrid(settings)
    plan = plan_of(settings, grid)
    counts = pooled(settings)
    check_plan(plan, counts, np.zeros_like(counts))
    assert plan.beta == 0
    assert plan.imbalance_after == plan.imbalance_before > 0
    assert {msg.metadata.message_type for msg in grid.requests} == {"query.prepare"}
    assert len(grid.requests) == 4


@pytest.mark.parametrize("policy", budget.POLICIES)
def test_every_policy_makes_what_the_pooled_counts_say(configure, fake_generator, policy):
    settings = configure(policy=policy, beta=12.0, seed=3)
    plan = plan_of(settings)
    counts = pooled(settings)
    expected = budget.allocate(counts, policy, beta=12.0)
    check_plan(plan, counts, expected)
    for client, row in zip(plan.clients, expected, strict=True):
        # The generator was asked for exactly these classes.
        order = plan.orders[client.partition_id]
        assert Client(settings, client.partition_id, 4).need(order).tolist() == row.tolist()
    if policy in budget.TOTAL_POLICIES:
        assert plan.synthetic == budget.allocate(counts, "fedeas", beta=12.0).sum() > 0
    assert sum(len(labels) for labels, _ in fake_generator.asked) == sum(
        c.made for c in plan.clients
    )


@pytest.mark.parametrize("policy", budget.TOTAL_POLICIES)
def test_totals_are_exact_on_many_tables(configure, with_counts, policy):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        counts = rng.integers(0, 200, (4, 10)) * (rng.random((4, 10)) < 0.4)
        counts[:, 0] += 1
        with_counts(counts)
        beta = float(rng.uniform(1, 30))
        plan = plan_of(configure(policy=policy, beta=beta))
        check_plan(plan, counts, budget.allocate(counts, policy, beta=beta))


def test_a_total_that_finds_no_place_is_the_users_to_solve(configure, with_counts):
    # Skewed, so T > 0, but nobody lacks a class.
    with_counts(np.array([[900] + [1] * 9] * 4))
    with pytest.raises(UserError, match="policy 'missing-only' cannot place its images"):
        plan_of(configure(policy="missing-only"))


def tables():
    for seed in range(24):
        rng = np.random.default_rng(seed)
        alpha = [0.05, 0.1, 0.3, 1.0][seed % 4]
        size = [100, 5_000, 400_000][seed % 3]
        shares = rng.dirichlet(np.full(4, alpha), 10).T
        yield np.floor(shares * size).astype(np.int64)


def same_failure_or_value(counts, settings):
    try:
        expected = budget.auto_beta(counts)
    except ValueError as error:
        closest = str(error).split("the closest")[1]
        with pytest.raises(UserError) as caught:
            plan_of(settings)
        assert closest.rstrip(".") in str(caught.value)
        assert "Set beta to a number" in str(caught.value)
        return None
    plan = plan_of(settings)
    assert plan.beta == expected
    check_plan(plan, counts, budget.allocate(counts, settings.policy, beta=expected))
    return expected


def test_auto_beta_is_what_the_pooled_counts_give(configure, with_counts):
    settings = configure(policy="fedeas", beta="auto")
    found = [same_failure_or_value(with_counts(table), settings) for table in tables()]
    chosen = {value for value in found if value is not None}
    assert None in found  # both outcomes occurred,
    assert len(chosen) > 3
    assert max(chosen) > 24  # and more than one list of betas was needed


def test_auto_beta_on_the_digits(configure, fake_generator):
    settings = configure(policy="fedeas", beta="auto", alpha=0.5)
    same_failure_or_value(pooled(settings), settings)


def test_auto_beta_of_balanced_clients_generates_nothing(configure, with_counts):
    counts = with_counts(np.full((4, 10), 25))
    plan = plan_of(configure(policy="fedeas", beta="auto"))
    assert plan.beta == budget.auto_beta(counts) == 2.0
    assert plan.synthetic == 0


def test_auto_beta_never_exceeds_its_limit(configure, with_counts):
    # So many images that no β up to 1,000 fills a class: nothing qualifies on either side.
    with_counts(np.array([[10**9, 10**9 // 2] + [10**8] * 8] * 4))
    grid = FakeGrid(settings := configure(policy="fedeas", beta="auto"))
    with pytest.raises(UserError, match="No beta from 2 to 1000"):
        plan_of(settings, grid)
    asked = [beta for msg in grid.requests for beta in msg.content["config"]["betas"]]
    assert max(asked) == 1000


def test_auto_beta_serves_the_policies_with_a_total(configure, with_counts):
    counts = with_counts(next(t for t in tables() if qualifies(t)))
    plan = plan_of(configure(policy="uniform", beta="auto"))
    beta = budget.auto_beta(counts)
    assert plan.beta == beta
    check_plan(plan, counts, budget.allocate(counts, "uniform", beta=beta))


def qualifies(counts):
    try:
        return bool(budget.auto_beta(counts))
    except ValueError:
        return False


ALLOWED = {
    "query.outlook": {"partition-id", "num-examples", "synthetic", "skew"},
    "query.prepare": {
        "partition-id", "num-examples", "synthetic", "made", "imbalance-before",
        "imbalance-after", "seconds",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "beta"), [("fedeas", 12.0), ("fedeas", "auto"), ("missing-only", 12.0)]
)
def test_nothing_but_totals_leaves_a_client(configure, fake_generator, policy, beta):
    settings = configure(policy=policy, beta=beta, alpha=1.0, seed=1)
    grid = FakeGrid(settings)
    try:
        plan_of(settings, grid)
    except UserError:
        assert beta == "auto"  # no β may qualify; what was sent until then counts
    assert grid.replies
    for reply in grid.replies:
        kind = reply.metadata.message_type
        extra = {"share-weight"} if kind == "query.outlook" and policy == "missing-only" else set()
        beside = {"config"} if kind == "query.prepare" else set()
        assert set(reply.content) == {"metrics"} | beside
        assert all(set(r) == {"generator-digest"} for r in reply.content.config_records.values())
        metrics = reply.content["metrics"]
        assert set(metrics) == ALLOWED[kind] | extra
        request = next(
            msg
            for msg in grid.requests
            if msg.metadata.message_id == reply.metadata.reply_to_message_id
        )
        for key, value in metrics.items():
            if isinstance(value, list):  # one number for each β asked about
                assert key in {"synthetic", "skew"}
                assert len(value) == len(request.content["config"]["betas"])


def test_the_plan_is_the_same_for_other_node_ids_and_orders_of_arrival(configure, fake_generator):
    settings = configure(policy="size-proportional")
    plans = []
    for seed in range(3):
        nodes = node_ids(4, seed)
        where = dict(zip(nodes, np.random.default_rng(seed).permutation(4).tolist(), strict=True))
        grid = FakeGrid(settings, where, shuffle=seed, at_a_time=2)
        plan = plan_of(settings, grid)
        assert plan.nodes == {
            partition: node for node, partition in sorted(where.items(), key=lambda item: item[1])
        }
        plans.append(plan)
    assert plans[0].orders == plans[1].orders == plans[2].orders
    assert list(plans[0].nodes) == [0, 1, 2, 3]
    for key in ("synthetic", "num_examples", "imbalance_after"):
        assert len({tuple(getattr(c, key) for c in plan.clients) for plan in plans}) == 1


def test_clients_are_reported_as_they_become_ready(configure):
    settings = configure()
    grid, ready = FakeGrid(settings, shuffle=4, at_a_time=1), []
    plan = prepare(
        grid, connect(grid, settings), settings,
        on_client=lambda client: ready.append((client.partition_id, len(grid.replies))),
    )  # fmt: skip
    assert sorted(k for k, _ in ready) == [0, 1, 2, 3]
    assert [pulled for _, pulled in ready] == [1, 2, 3, 4]
    assert plan.to_dict()["clients"][0]["partition-id"] == 0


def test_what_fails_at_every_client_is_said_once(configure, fake_generator, tmp_path):
    fake_generator.error = UserError("The weights are damaged; fetch them again.")
    with pytest.raises(UserError) as caught:
        plan_of(configure(policy="full", cache_dir=str(tmp_path / "empty")))
    assert str(caught.value) == (
        "query.prepare failed: The weights are damaged; fetch them again. (4 clients)"
    )


def test_clients_that_fail_for_different_reasons(configure):
    def tamper(partition, request, reply):
        error = failure(request, "Out of memory." if partition else "No disk.")
        return reply if partition == 3 else error

    settings = configure()
    with pytest.raises(UserError, match=r"failed: Out of memory. \(2 clients\) No disk.$"):
        plan_of(settings, FakeGrid(settings, tamper=tamper))


def failure(request, text):
    return Message(Error(2, f"<class 'RuntimeError'>:<'{text}'>"), reply_to=request)


def test_a_silent_client_is_noticed_at_the_timeout(configure):
    settings = configure(prepare_timeout=0.2)
    grid = FakeGrid(settings, tamper=lambda k, request, reply: reply if k else None)
    with pytest.raises(UserError, match=r"query.prepare failed: No reply within 0.2 seconds"):
        plan_of(settings, grid)


def test_two_nodes_of_one_partition_are_refused(configure):
    settings = configure()
    with pytest.raises(UserError, match="4 SuperNodes hold only 3 different partitions"):
        plan_of(settings, FakeGrid(settings, {11: 0, 12: 1, 13: 1, 14: 2}))


@pytest.mark.parametrize("count", [3, 5])
def test_another_number_of_nodes_is_refused(configure, monkeypatch, count):
    settings = configure(num_clients=4)
    grid = FakeGrid(settings, count)
    with pytest.raises(UserError, match=f"num-clients is 4, but {count} SuperNodes"):
        connect(grid, settings, timeout=0.0)
    assert not grid.requests


def test_auto_takes_the_nodes_that_are_there(configure):
    plan = plan_of(settings := configure(num_clients="auto"), FakeGrid(settings, 3))
    assert plan.real == pooled(settings, 3).sum()
    assert len(plan.clients) == 3


def test_the_plan_as_data_adds_up(configure, fake_generator):
    plan = plan_of(configure(policy="fedeas"))
    data = plan.to_dict()
    assert data["synthetic"] == sum(client["synthetic"] for client in data["clients"])
    assert data["real"] == sum(client["num-examples"] for client in data["clients"]) == 300
    assert data["made"] == sum(client["made"] for client in data["clients"])
    assert data["beta"] == 12.0
    assert data["imbalance-after"] < data["imbalance-before"]


@pytest.mark.parametrize("change", [{"seconds": None}, {"synthetic": [1, 2]}, {"made": math.nan}])
def test_an_answer_of_another_version_is_a_sentence(change):
    answer = {
        "partition-id": 0, "num-examples": 5, "synthetic": 1, "made": 1,
        "imbalance-before": 0.5, "imbalance-after": 0.4, "seconds": 1.0,
    }  # fmt: skip
    answer = {key: value for key, value in (answer | change).items() if value is not None}
    request = Message(RecordDict(), 7, "query.prepare")
    reply = Message(RecordDict({"metrics": MetricRecord(answer)}), reply_to=request)
    with pytest.raises(UserError, match="run the same version of the app on every node"):
        preparation.read_client(reply)
