"""Whole runs: real clients and server in one process, without Flower's own processes."""

import json
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_grid import FakeGrid, by_superlink, failed, node_ids
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from safetensors.torch import load_file

import server_app
from fedeas_app import budget, messages
from fedeas_app.client import Client, Order
from fedeas_app.data import load_split
from fedeas_app.errors import UserError
from fedeas_app.evaluation import Evaluator
from fedeas_app.local import Job, train_locally, train_sgd
from fedeas_app.settings import Settings
from fedeas_app.strategies.registry import STRATEGIES

FILES = {
    "config.toml", "manifest.json", "preparation.jsonl", "plan.json", "rounds.jsonl",
    "model.safetensors", "accuracy.png", "summary.json",
}  # fmt: skip


class Record:
    """The files of a run, parsed."""

    def __init__(self, directory):
        self.directory = directory

    def __getattr__(self, name):
        return json.loads((self.directory / f"{name}.json").read_text(encoding="utf-8"))

    @property
    def settings(self):
        text = (self.directory / "config.toml").read_text(encoding="utf-8")
        return Settings.parse(tomllib.loads(text))

    @property
    def model(self):
        return load_file(self.directory / "model.safetensors")

    def lines(self, name, drop=()):
        text = (self.directory / f"{name}.jsonl").read_text(encoding="utf-8")
        kept = [json.loads(line) for line in text.splitlines()]
        return [{key: line[key] for key in line if key not in drop} for line in kept]


def start(settings, grid=None):
    grid = grid or FakeGrid(settings)
    server_app.main(grid, Context(1, 0, {}, RecordDict(), settings.to_flat()))
    return Record(settings.output_path / settings.run_name)


def equal_models(first, second):
    return list(first) == list(second) and all(torch.equal(first[n], second[n]) for n in first)


@pytest.mark.parametrize("policy", ["none", "fedeas", "missing-only"])
def test_a_run_leaves_a_whole_record(configure, fake_generator, policy):
    settings = configure(policy=policy)
    record = start(settings)
    assert {path.name for path in record.directory.iterdir()} == FILES
    assert record.settings == Settings.parse(settings.to_flat() | {"run-name": ""})
    rounds = record.lines("rounds")
    assert [line["round"] for line in rounds] == [0, 1, 2, 3]
    for line in rounds[1:]:
        assert [p["partition"] for p in line["participants"]] == [0, 1, 2, 3]
        assert sum(p["weight"] for p in line["participants"]) == pytest.approx(1.0)
        assert line["failures"] == {}
    accuracies = [line["accuracy"] for line in rounds[1:]]
    summary = record.summary
    assert summary["status"] == "completed"
    assert summary["final"] == accuracies[-1]
    assert summary["best"] == max(accuracies)
    a, b, c = accuracies
    assert summary["auc"] == pytest.approx((a + 2 * b + c) / 4)
    assert set(summary["seconds"]) == {"load", "prepare", "train"}
    assert rounds[3]["loss"] < rounds[0]["loss"]  # it learns

    counts = np.concatenate([Client(settings, k, 4).counts for k in range(4)])
    made = budget.allocate(counts, policy, beta=12.0)
    plan = record.plan
    assert [c["synthetic"] for c in plan["clients"]] == made.sum(axis=1).tolist()
    assert plan["imbalance-before"] == pytest.approx(budget.imbalance(counts))
    assert plan["imbalance-after"] == pytest.approx(budget.imbalance(counts + made))
    assert len(record.lines("preparation")) == 4
    digest = "" if policy == "none" else fake_generator.digest
    assert record.manifest["digests"]["generator"] == digest


def test_the_kept_model_is_the_one_that_was_evaluated(configure):
    settings = configure()
    record = start(settings)
    model = Client(settings, 0, 4).model()
    model.load_state_dict(record.model)
    test = load_split(settings, "test")
    pixels = torch.from_numpy(test.images.transpose(0, 3, 1, 2).astype(np.float32)) / 63.75 - 2
    with torch.no_grad():
        right = (model.eval()(pixels).argmax(1).numpy() == test.labels).mean()
    assert record.summary["final"] == right
    assert record.lines("rounds")[-1]["accuracy"] == right


def test_fedavg_with_equal_clients_is_the_mean_of_their_training(configure):
    """One round by hand: the same first model, local SGD, the weighted mean in float64."""
    settings = configure(strategy="fedavg", rounds=1, num_clients=2, seed=4)
    record = start(settings, FakeGrid(settings, 2))
    sizes, states = [], []
    for k in range(2):
        client = Client(settings, k, 2)
        model = client.model()
        train_sgd(model, client.examples(Order()), settings, client.rng(1))
        sizes.append(len(client.indices))
        states.append(
            {name: t.numpy().astype(np.float64) for name, t in model.state_dict().items()}
        )
    for name, tensor in record.model.items():
        mean = sum(n / sum(sizes) * state[name] for n, state in zip(sizes, states, strict=True))
        assert np.array_equal(tensor.numpy(), mean.astype(np.float32))


@pytest.mark.parametrize(
    "keys",
    [
        {"policy": "none", "strategy": "fedoui", "fraction_train": 0.5},
        {"policy": "fedeas", "strategy": "fedoui", "augment": True},
        {"policy": "missing-only", "strategy": "fedavg"},
        {"policy": "none", "strategy": "scaffold", "fraction_train": 0.5},
        {"policy": "none", "strategy": "moon"},
        {"policy": "none", "strategy": "fedoui-fedalign", "oui_window": 2, "oui_smoothing": 0.5},
    ],
)
def test_a_seed_gives_the_same_bits(configure, fake_generator, keys, tmp_path):
    records = []
    for number in range(3):
        # Every run with other node ids, in another order, and with images of its own making.
        settings = configure(**keys, output_dir=str(tmp_path / f"runs-{number}"))
        shutil.rmtree(settings.cache_path / "synthetic", ignore_errors=True)
        places = np.random.default_rng(number).permutation(4).tolist()
        nodes = dict(zip(node_ids(4, number), places, strict=True))
        torch.manual_seed(number)
        records.append(start(settings, FakeGrid(settings, nodes, shuffle=number, at_a_time=2)))
    first = records[0]
    for other in records[1:]:
        assert equal_models(first.model, other.model)
        assert first.lines("rounds", ["seconds"]) == other.lines("rounds", ["seconds"])
        assert first.manifest == other.manifest
        plans = [record.plan for record in (first, other)]
        for plan in plans:
            for client in plan["clients"]:
                client.pop("seconds")
        assert plans[0] == plans[1]
    if "fraction_train" in keys:
        cohorts = [[p["partition"] for p in line["participants"]]
                   for line in first.lines("rounds")[1:]]  # fmt: skip
        assert [len(cohort) for cohort in cohorts] == [2, 2, 2]


def test_another_seed_gives_another_run(configure):
    first = start(configure(run_name="a", train_samples=0))
    second = start(configure(run_name="b", train_samples=0, seed=1))
    assert not equal_models(first.model, second.model)


def test_a_cache_that_vanishes_between_rounds_changes_nothing(configure, fake_generator, tmp_path):
    undisturbed = start(configure(policy="fedeas", run_name="a"))

    def vanish(partition, request, reply):
        shutil.rmtree(tmp_path / "cache" / "synthetic", ignore_errors=True)
        return reply

    settings = configure(policy="fedeas", run_name="b", cache_dir=str(tmp_path / "cache"))
    disturbed = start(settings, FakeGrid(settings, tamper=vanish))
    assert equal_models(undisturbed.model, disturbed.model)


ALLOWED = {
    "query.outlook": {"partition-id", "num-examples", "synthetic", "skew", "share-weight"},
    "query.prepare": {
        "partition-id", "num-examples", "synthetic", "made", "imbalance-before",
        "imbalance-after", "seconds",
    },
    "train": {"partition-id", "num-examples", "oui", "loss"},
}  # fmt: skip


def test_nothing_but_totals_and_weights_leaves_a_client(configure, fake_generator):
    settings = configure(policy="size-proportional")
    grid = FakeGrid(settings)
    record = start(settings, grid)
    assert {reply.metadata.message_type for reply in grid.replies} == set(ALLOWED)
    shapes = {name: tuple(tensor.shape) for name, tensor in record.model.items()}
    for reply in grid.replies:
        kind = reply.metadata.message_type
        beside = {"train": {"arrays"}, "query.prepare": {"config"}}.get(kind, set())
        assert set(reply.content) == {"metrics"} | beside
        if kind == "query.prepare":
            digest = {"generator-digest": fake_generator.digest}
            assert dict(reply.content["config"]) == digest
        assert set(reply.content["metrics"]) == ALLOWED[kind]
        values = reply.content["metrics"].values()
        # One β was asked about: no list is longer, let alone as long as the classes.
        assert all(len(value) == 1 for value in values if isinstance(value, list))
        if kind == "train":
            arrays = reply.content["arrays"]
            assert {name: array.numpy().shape for name, array in arrays.items()} == shapes


def test_every_client_is_told_its_own_order_in_every_round(configure, fake_generator):
    settings = configure(policy="size-proportional", beta=9.0)
    grid = FakeGrid(settings)
    start(settings, grid)
    counts = np.concatenate([Client(settings, k, 4).counts for k in range(4)])
    shares = budget.allocate(counts, "size-proportional", beta=9.0).sum(axis=1).tolist()
    told = [
        (grid.partitions[msg.metadata.dst_node_id], dict(msg.content["config"]))
        for msg in grid.requests
        if msg.metadata.message_type == "train"
    ]
    same = {"beta": 9.0, "generator-digest": fake_generator.digest}
    assert sorted(told, key=_in_order) == sorted(
        ((k, {"share": shares[k], "server-round": r, **same}) for k in range(4) for r in (1, 2, 3)),
        key=_in_order,
    )


def _in_order(told):
    partition, config = told
    return partition, config["server-round"]


def test_one_broken_client_is_left_out_and_named(configure):
    """NaN weights, an error made up by the SuperLink, and silence: one fault a round."""

    def tamper(partition, request, reply):
        if request.metadata.message_type != "train":
            return reply
        server_round = request.content["config"]["server-round"]
        if partition == 1 and server_round == 1:
            weights = reply.content["arrays"]["output.bias"].numpy().copy()
            weights[0] = np.nan
            reply.content["arrays"]["output.bias"] = Array(weights)
        if partition == 2 and server_round == 2:
            return by_superlink(failed("Node is gone")(partition, request, reply))
        return None if partition == 0 and server_round == 3 else reply

    settings = configure(round_timeout=0.3)
    record = start(settings, FakeGrid(settings, tamper=tamper))
    rounds = record.lines("rounds")[1:]
    assert [line["failures"] for line in rounds] == [
        {"1": "output.bias holds values that are not finite"},
        {"2": "Node is gone"},
        {"0": "no reply within 0.3 seconds"},
    ]
    present = [[p["partition"] for p in line["participants"]] for line in rounds]
    assert present == [[0, 2, 3], [0, 1, 3], [1, 2, 3]]
    assert all(torch.isfinite(tensor).all() for tensor in record.model.values())
    assert record.summary["status"] == "completed"


def test_a_run_whose_clients_all_fail_fails_and_says_why_once(configure):
    settings = configure()
    with pytest.raises(UserError) as caught:
        start(settings, FakeGrid(settings, tamper=failed("Out of memory.")))
    reason = "Round 1 has no usable reply: Out of memory. (4 clients)"
    assert str(caught.value) == reason
    record = Record(settings.output_path / "run")
    summary = record.summary
    assert (summary["status"], summary["reason"]) == ("failed", reason)
    assert {p.name for p in record.directory.iterdir()} == FILES - {
        "model.safetensors", "accuracy.png",
    }  # fmt: skip
    initial, failed_round = record.lines("rounds", drop=["seconds"])
    assert failed_round == {
        "round": 1,
        "accuracy": initial["accuracy"],
        "loss": initial["loss"],
        "participants": [],
        "failures": dict.fromkeys("0123", "Out of memory."),
    }


def test_a_round_that_fails_may_be_passed_over(configure):
    def tamper(partition, request, reply):
        second = request.content["config"].get("server-round") == 2
        return failed("Node is gone.")(partition, request, reply) if second else reply

    settings = configure(max_failed_rounds=2)
    record = start(settings, FakeGrid(settings, tamper=tamper))
    lines = record.lines("rounds", drop=["seconds"])
    assert [len(line["participants"]) for line in lines[1:]] == [4, 0, 4]
    assert lines[2]["accuracy"] == lines[1]["accuracy"]
    assert record.summary["failures"] == 4


def test_a_run_that_fails_to_prepare_says_why(configure, fake_generator, tmp_path):
    fake_generator.error = ValueError("broken pipe")
    settings = configure(policy="full", cache_dir=str(tmp_path / "cache"))
    with pytest.raises(UserError, match=r"query.prepare failed: broken pipe \(4 clients\)"):
        start(settings)
    record = Record(settings.output_path / "run")
    assert record.summary["status"] == "failed"
    assert "broken pipe (4 clients)" in record.summary["reason"]
    assert {p.name for p in record.directory.iterdir()} == {
        "config.toml", "manifest.json", "summary.json",
    }  # fmt: skip


def test_an_error_of_our_own_is_kept_with_its_type(configure, monkeypatch):
    monkeypatch.setattr(Evaluator, "__call__", lambda self, arrays: {}["accuracy"])
    settings = configure()
    with pytest.raises(KeyError):
        start(settings)
    assert Record(settings.output_path / "run").summary["reason"] == "KeyError('accuracy')"


def test_a_taken_run_name_is_refused_before_anything_happens(configure):
    settings = configure(rounds=1)
    record = start(settings)
    before = {path.name: path.read_bytes() for path in record.directory.iterdir()}
    grid = FakeGrid(settings)
    with pytest.raises(UserError, match="run exists already"):
        start(settings, grid)
    assert not grid.requests
    assert {path.name: path.read_bytes() for path in record.directory.iterdir()} == before


def test_invalid_settings_are_refused_without_a_record(configure, tmp_path):
    flat = configure().to_flat() | {"alpha": -1.0}
    with pytest.raises(UserError, match=r"alpha is -1\.0"):
        server_app.main(FakeGrid(configure()), Context(1, 0, {}, RecordDict(), flat))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("count", "words"), [(5, "5 SuperNodes"), (6, "6 SuperNodes")])
def test_another_number_of_nodes_fails_the_run(configure, count, words):
    settings = configure()
    with pytest.raises(UserError, match=f"num-clients is 4, but {words}"):
        start(settings, FakeGrid(settings, count))
    assert Record(settings.output_path / "run").summary["status"] == "failed"


def test_the_record_says_what_every_round_weighed(configure):
    record = start(configure(strategy="fedavg"))
    sizes = [len(Client(record.settings, k, 4).indices) for k in range(4)]
    for line in record.lines("rounds")[1:]:
        people = line["participants"]
        assert [p["num-examples"] for p in people] == sizes
        assert [p["weight"] for p in people] == pytest.approx([n / 300 for n in sizes])
        assert line["train-loss"] == pytest.approx(sum(p["weight"] * p["loss"] for p in people))
    assert Path(record.directory, "accuracy.png").stat().st_size > 1000


OTHERS = sorted(set(STRATEGIES) - {"fedavg", "fedoui"})


@pytest.mark.parametrize("strategy", OTHERS)
def test_every_strategy_runs_and_says_what_it_weighed(configure, strategy):
    settings = configure(strategy=strategy, rounds=2, trim_fraction=0.3, malicious_clients=0)
    record = start(settings)
    details = {"fedalign": {"agreement"}, "fedoui-fedalign": {"agreement"},
               "scaffold": {"state-lost"}, "moon": {"state-lost"},
               "krum": {"krum-score"}, "multikrum": {"krum-score"}}  # fmt: skip
    common = {"partition", "num-examples", "oui", "loss", "score", "weight", "drift"}
    for line in record.lines("rounds")[1:]:
        people = line["participants"]
        assert sum(p["weight"] for p in people) == pytest.approx(1.0)
        assert all(set(p) == common | details.get(strategy, set()) for p in people)
        assert line["drift"] == pytest.approx(sum(p["weight"] * p["drift"] for p in people))
        assert not any(p.get("state-lost") for p in people)
    fedavg = start(configure(strategy="fedavg", rounds=2, run_name="fedavg"))
    assert not equal_models(record.model, fedavg.model)
    assert not (settings.cache_path / "client-states").exists() or not list(
        (settings.cache_path / "client-states").iterdir()
    )


class Watch:
    """Keeps what goes out and comes back beside the model, and may spoil a reply."""

    def __init__(self, spoil=None):
        self.out, self.back, self.spoil = {}, {}, spoil

    def __call__(self, partition, request, reply):
        if request.metadata.message_type == "train":
            server_round = request.content["config"]["server-round"]
            extras = request.content.array_records.get("extras", {})
            self.out[server_round] = {name: a.numpy() for name, a in extras.items()}
            extras = reply.content.array_records.get("extras", {})
            self.back[server_round, partition] = {name: a.numpy() for name, a in extras.items()}
            if self.spoil is not None:
                return self.spoil(server_round, partition, reply)
        return reply

    def variates(self, until, counted=lambda server_round, partition: True):
        """c_k of the four clients after some rounds, from what they sent."""
        return [
            {
                name: sum(self.back[r, k][name] for r in range(1, until + 1) if counted(r, k))
                for name in self.back[1, k]
            }
            for k in range(4)
        ]


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("weights", ["clients", "examples"])
def test_scaffold_keeps_its_variates_and_c_is_their_mean(configure, option, weights):
    settings = configure(strategy="scaffold", scaffold_option=option, scaffold_weights=weights)
    sizes = [len(Client(settings, k, 4).indices) for k in range(4)]
    p = [1, 1, 1, 1] if weights == "clients" else sizes
    kept = {}

    def look(server_round, partition, reply):
        (run,) = (settings.cache_path / "client-states").iterdir()
        kept[server_round, partition] = load_file(run / f"{partition}-{server_round}.safetensors")
        return reply

    watch = Watch(look)
    start(settings, FakeGrid(settings, tamper=watch))
    parameters = dict(Client(settings, 0, 4).model().named_parameters())
    assert not any(c.any() for c in watch.out[1].values())
    for server_round in (1, 2):
        c_k = watch.variates(server_round)
        assert list(watch.out[server_round + 1]) == list(parameters)
        for name, c in watch.out[server_round + 1].items():
            assert np.allclose(
                c, np.average([own[name] for own in c_k], axis=0, weights=p), atol=1e-6
            )
            for k in range(4):
                assert c_k[k][name].any()
                stored = kept[server_round, k][name].numpy()
                assert np.allclose(stored, c_k[k][name], atol=1e-6)


def test_a_lost_reply_leaves_c_the_mean_of_all_variates(configure):
    def spoil(server_round, partition, reply):
        if (server_round, partition) == (2, 1):
            spoilt = reply.content["extras"]["output.bias"].numpy().copy()
            spoilt[3] = np.inf
            reply.content["extras"]["output.bias"] = Array(spoilt)
        return reply

    watch = Watch(spoil)
    settings = configure(strategy="scaffold", rounds=4, scaffold_weights="clients")
    record = start(settings, FakeGrid(settings, tamper=watch))
    assert record.lines("rounds")[2]["failures"] == {
        "1": "beside the model, output.bias holds values that are not finite"
    }
    c_k = watch.variates(3, counted=lambda r, k: (r, k) != (2, 1))
    for name, c in watch.out[4].items():
        assert np.allclose(c, np.mean([own[name] for own in c_k], axis=0), atol=1e-6)
    assert not any(
        p["state-lost"] for line in record.lines("rounds")[1:] for p in line["participants"]
    )


@pytest.mark.parametrize("strategy", ["scaffold", "moon"])
def test_lost_states_are_told_and_training_goes_on(configure, strategy, tmp_path):
    settings = configure(strategy=strategy, cache_dir=str(tmp_path / "cache"))

    def lose(server_round, partition, reply):
        if (server_round, partition) == (2, 3):  # the last to answer
            shutil.rmtree(settings.cache_path / "client-states")
        return reply

    record = start(settings, FakeGrid(settings, tamper=Watch(lose)))
    lost = [[p["state-lost"] for p in line["participants"]] for line in record.lines("rounds")[1:]]
    assert lost == [[0] * 4, [0] * 4, [1] * 4]
    assert record.summary["status"] == "completed"


def test_moon_trains_against_each_clients_own_last_model(configure):
    """Two rounds of two clients by hand: what is kept stays with its client."""
    settings = configure(strategy="moon", num_clients=2, rounds=2, seed=4)
    record = start(settings, FakeGrid(settings, 2))
    clients = [Client(settings, k, 2) for k in range(2)]
    shares = [len(client.indices) / 300 for client in clients]
    states = [{}, {}]
    w = {name: tensor.clone() for name, tensor in clients[0].model().state_dict().items()}
    for server_round in (1, 2):
        for k, client in enumerate(clients):
            model, rng = client.model(), client.rng(server_round)
            model.load_state_dict(w)
            job = Job(model, client.examples(Order()), settings, rng, state=states[k])
            states[k] = {n: t.clone() for n, t in train_locally(job).state.items()}
        for name in w:
            mean = sum(
                share * own[name].numpy().astype(np.float64)
                for share, own in zip(shares, states, strict=True)
            )
            w[name] = torch.from_numpy(mean.astype(np.float32))
    assert all(torch.equal(record.model[name], tensor) for name, tensor in w.items())


@pytest.mark.parametrize("strategy", ["scaffold", "moon"])
def test_states_of_an_earlier_run_of_the_same_seed_are_never_met(configure, strategy):
    """The first run fails in round 3 and leaves its states behind."""

    def fail(partition, request, reply):
        late = request.metadata.message_type == "train" and (
            request.content["config"]["server-round"] == 3
        )
        return failed("Gone.")(partition, request, reply) if late else reply

    fresh = start(configure(strategy=strategy, run_name="fresh"))
    broken = configure(strategy=strategy, run_name="broken")
    with pytest.raises(UserError, match="Gone"):
        start(broken, FakeGrid(broken, tamper=fail))
    states = broken.cache_path / "client-states"
    assert len(list(states.glob("*/*.safetensors"))) == 8
    again = start(configure(strategy=strategy, run_name="again"))
    assert equal_models(fresh.model, again.model)
    shutil.rmtree(states)


def test_scaffold_sends_its_variates_and_nothing_else_of_the_client(configure):
    settings = configure(strategy="scaffold")
    grid = FakeGrid(settings)
    start(settings, grid)
    shapes = {n: tuple(p.shape) for n, p in Client(settings, 0, 4).model().named_parameters()}
    for reply in grid.replies:
        if reply.metadata.message_type == "train":
            assert set(reply.content) == {"metrics", "arrays", "extras"}
            assert set(reply.content["metrics"]) == ALLOWED["train"] | {"state-lost"}
            extras = reply.content["extras"]
            assert {name: array.numpy().shape for name, array in extras.items()} == shapes


def test_a_variate_that_does_not_fit_the_model_is_refused_by_the_client(configure):
    settings = configure(strategy="scaffold")
    parameters = dict(Client(settings, 0, 4).model().named_parameters())
    whole = {name: Array(np.zeros(tuple(p.shape), np.float32)) for name, p in parameters.items()}
    wrong = [
        {name: array for name, array in whole.items() if name != "output.bias"},
        whole | {"output.bias": Array(np.zeros(3, np.float32))},
        whole | {"output.bias": Array(np.zeros(10))},
        whole | {"output.bias": Array(np.full(10, np.nan, np.float32))},
    ]
    request = Message(RecordDict({"extras": ArrayRecord(whole)}), 1, "train")
    assert list(messages.read_extras(request, parameters)) == list(parameters)
    for arrays in wrong:
        request = Message(RecordDict({"extras": ArrayRecord(arrays)}), 1, "train")
        with pytest.raises(UserError, match="does not fit the model"):
            messages.read_extras(request, parameters)
