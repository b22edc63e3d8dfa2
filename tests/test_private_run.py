"""Whole runs with limits and with differential privacy: real clients and server in one process."""

import json

import numpy as np
import pytest
from fake_grid import FakeGrid
from flwr.app import Context, RecordDict
from safetensors.numpy import load_file

import server_app
from fedeas_app.errors import UserError
from fedeas_app.privacy.accounting import epsilon_of
from fedeas_app.privacy.spending import LEDGER

CENTRAL = {"privacy": "central", "strategy": "fedavg", "clip_norm": 1.0, "noise_multiplier": 0.1}
LOCAL = {"privacy": "local", "strategy": "fedoui", "clip_norm": 1.0, "noise_multiplier": 0.01}


def start(settings, tamper=None):
    grid = FakeGrid(settings, tamper=tamper)
    server_app.main(grid, Context(1, 0, {}, RecordDict(), settings.to_flat()))
    return settings.output_path / settings.run_name, grid


def read(directory, name):
    return json.loads((directory / name).read_text(encoding="utf-8"))


def lines(directory):
    text = (directory / "rounds.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def model(directory):
    return load_file(directory / "model.safetensors")


@pytest.mark.parametrize(("keys", "sensitivity"), [(CENTRAL, 1), (LOCAL, 2)])
def test_the_record_states_what_was_spent(configure, keys, sensitivity):
    directory, _ = start(configure(**keys, fraction_train=0.5, privacy_delta=1e-4))
    asked = [[p["partition"] for p in line["participants"]] for line in lines(directory)[1:]]
    counts = np.bincount(np.concatenate(asked))
    expected = epsilon_of(counts.max(), keys["noise_multiplier"] / sensitivity, 1e-4)
    ledger, summary = read(directory, LEDGER), read(directory, "summary.json")["privacy"]
    assert ledger["releases"] == {str(k): int(n) for k, n in enumerate(counts) if n}
    assert ledger["epsilon"] == summary["epsilon"] == pytest.approx(expected)
    assert summary["delta"] == 1e-4


def test_the_systems_noise_makes_every_run_another_and_the_seeds_the_same(configure):
    system = [start(configure(run_name=name, **CENTRAL))[0] for name in "ab"]
    keys = CENTRAL | {"noise_source": "seed"}
    seeded = [start(configure(run_name=name, **keys))[0] for name in "cd"]
    name = "output.bias"
    assert not np.array_equal(model(system[0])[name], model(system[1])[name])
    assert np.array_equal(model(seeded[0])[name], model(seeded[1])[name])
    assert read(seeded[0], "summary.json")["privacy"]["epsilon"] is None


def test_what_leaves_a_client_is_clipped_and_noisy(configure):
    updates = {}

    def look(partition, request, reply):
        if request.metadata.message_type == "train":
            sent, back = request.content["arrays"], reply.content["arrays"]
            parts = [back[n].numpy().astype(np.float64) - sent[n].numpy() for n in sent]
            updates[partition] = np.concatenate([part.ravel() for part in parts])
        return reply

    directory, _ = start(configure(**LOCAL | {"clip_norm": 0.1}, rounds=1), look)
    for update in updates.values():
        # ‖Δ + noise‖² ≈ C² + (zC)²·d, as Δ is longer than C before it is clipped.
        expected = 0.1**2 + (0.01 * 0.1) ** 2 * update.size
        assert (update**2).sum() == pytest.approx(expected, rel=0.1)
    assert "norm" not in lines(directory)[1]["participants"][0]


def interrupted(settings, server_round):
    def tamper(partition, request, reply):
        if request.content["config"].get("server-round") == server_round:
            raise KeyboardInterrupt
        return reply

    with pytest.raises(KeyboardInterrupt):
        start(settings, tamper)


def test_a_run_that_goes_on_counts_what_it_told_before(configure):
    interrupted(configure(**CENTRAL, checkpoint_every=1), 3)
    directory, _ = start(configure(**CENTRAL, checkpoint_every=1, resume=True))
    assert read(directory, LEDGER)["releases"] == dict.fromkeys("0123", 4)  # round 3 twice
    summary = read(directory, "summary.json")["privacy"]
    assert summary["epsilon"] == pytest.approx(epsilon_of(4, 0.1, 1e-5))


def test_limits_go_with_a_policy_and_fedoui(configure, fake_generator):
    keys = {"policy": "fedeas", "strategy": "fedoui", "weight_by": "total"}
    directory, _ = start(configure(**keys, max_client_weight=0.3, clip_norm="median"))
    plan = {c["partition-id"]: c for c in read(directory, "plan.json")["clients"]}
    assert sum(c["synthetic"] for c in plan.values()) > 0
    for line in lines(directory)[1:]:
        people = line["participants"]
        assert line["failures"] == {}
        assert max(p["weight"] for p in people) <= 0.3 + 1e-12
        assert sum(p["clipped-by"] < 1 for p in people) == 2  # of four, two above the median
        for p in people:
            declared = plan[p["partition"]]
            assert p["num-examples"] == declared["num-examples"] + declared["synthetic"]


def test_a_round_too_small_for_the_strategy_is_refused_before_anything_is_made(configure):
    settings = configure(strategy="krum", policy="fedeas", malicious_clients=2)
    grid = FakeGrid(settings)
    with pytest.raises(UserError, match="needs at least 7 clients in a round, but 4 clients are"):
        server_app.main(grid, Context(1, 0, {}, RecordDict(), settings.to_flat()))
    assert not grid.requests


@pytest.mark.parametrize("policy", ["uniform", "missing-only"])
def test_what_was_declared_holds_for_every_policy(configure, fake_generator, policy):
    directory, _ = start(configure(policy=policy, weight_by="total", rounds=1))
    assert lines(directory)[1]["failures"] == {}


def test_a_number_that_was_not_declared_does_not_count(configure):
    def tamper(partition, request, reply):
        if partition == 2 and request.metadata.message_type == "train":
            reply.content["metrics"]["num-examples"] *= 1000
        return reply

    directory, _ = start(configure(rounds=2), tamper)
    sizes = {c["partition-id"]: c["num-examples"] for c in read(directory, "plan.json")["clients"]}
    text = f"num-examples is {1000 * sizes[2]}, but {sizes[2]} when the client prepared"
    assert [line["failures"] for line in lines(directory)[1:]] == [{"2": text}] * 2
