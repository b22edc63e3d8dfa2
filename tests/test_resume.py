"""Interrupted runs that go on: real clients and server in one process."""

import json
import shutil

import pytest
import torch
from fake_grid import FakeGrid
from flwr.app import Context, RecordDict
from safetensors.torch import load_file

import server_app
from fedeas_app.checkpoint import load_checkpoint
from fedeas_app.checkpointing import Checkpoints
from fedeas_app.errors import UserError
from fedeas_app.runs.resuming import CHECKPOINT, lock
from fedeas_app.strategies.registry import STRATEGIES

ROUNDS = 4
FEW = {"trim_fraction": 0.3, "malicious_clients": 0}  # what four clients allow
TIMES = ("seconds",)


def start(settings, tamper=None):
    grid = FakeGrid(settings, tamper=tamper)
    server_app.main(grid, Context(1, 0, {}, RecordDict(), settings.to_flat()))
    return settings.output_path / settings.run_name


def interrupted_in(server_round, last=True):
    """Break a run off when the first, or else the last, client of a round has answered."""
    answered = []

    def tamper(partition, request, reply):
        if request.content["config"].get("server-round") == server_round:
            answered.append(partition)
            if not last or len(answered) == 4:
                raise KeyboardInterrupt
        return reply

    return tamper


def broken_off(settings, server_round, **how):
    with pytest.raises(KeyboardInterrupt):
        start(settings, interrupted_in(server_round, **how))
    return settings.output_path / settings.run_name


def lines(directory, drop=TIMES):
    text = (directory / "rounds.jsonl").read_text(encoding="utf-8")
    return [
        {key: value for key, value in json.loads(line).items() if key not in drop}
        for line in text.splitlines()
    ]


def read(directory, name):
    return json.loads((directory / name).read_text(encoding="utf-8"))


def equal_runs(first, second):
    models = [load_file(run / "model.safetensors") for run in (first, second)]
    assert lines(first) == lines(second)
    for key in ("final", "best", "auc", "failures", "status"):
        assert read(first, "summary.json")[key] == read(second, "summary.json")[key]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


@pytest.fixture
def job(configure):
    """Return settings of a run of four rounds, by name."""

    def make(name="run", **keys):
        return configure(**({"rounds": ROUNDS, "run_name": name} | keys))

    return make


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_is_bit_equal_to_one_that_was_never_interrupted(job, strategy):
    keys = {"strategy": strategy, "oui_window": 2, "oui_smoothing": 0.5} | FEW
    whole = start(job("whole", **keys))
    broken = broken_off(job(**keys), 3)
    assert (broken / CHECKPOINT).is_file()
    start(job(**keys, resume=True))
    equal_runs(broken, whole)
    assert not (broken / CHECKPOINT).exists()
    assert read(broken, "plan.json") == read(whole, "plan.json") | _made(broken)


def _made(directory):
    """Both runs share a cache: what this one did not need to make is all that may differ."""
    plan = read(directory, "plan.json")
    return {key: plan[key] for key in ("made", "clients")}


@pytest.mark.parametrize("killed", [True, False])
@pytest.mark.parametrize("strategy", ["scaffold", "moon"])
@pytest.mark.parametrize("at", [2, 3, 4])
def test_clients_find_the_states_of_the_checkpoint_again(job, monkeypatch, strategy, at, killed):
    if killed:  # then nothing of it has its say at the end
        monkeypatch.setattr(Checkpoints, "end", lambda checkpoints: None)
    keys = {"strategy": strategy, "checkpoint_every": 2, "fraction_train": 0.75}
    whole = start(job("whole", **keys))
    broken = broken_off(job(**keys), at, last=False)
    kept = load_checkpoint(broken)
    last = at - 1 if not killed else (at - 1) // 2 * 2
    assert (kept.server_round if kept else 0) == last
    start(job(**keys, resume=True))
    equal_runs(broken, whole)
    assert not any(p.get("state-lost") for line in lines(broken)[1:] for p in line["participants"])


@pytest.mark.parametrize("compression", ["fp16", "int8"])
@pytest.mark.parametrize("strategy", ["fedoui", "moon"])
def test_clients_find_what_compression_took_again(job, compression, strategy):
    keys = {"strategy": strategy, "compression": compression}
    whole = start(job("whole", **keys))
    broken = broken_off(job(**keys), 3, last=False)
    start(job(**keys, resume=True))
    equal_runs(broken, whole)
    participants = [p for line in lines(broken)[1:] for p in line["participants"]]
    assert [p["state-lost"] for p in participants] == [0] * 4 * ROUNDS


def test_it_may_be_interrupted_again_and_again(job):
    whole = start(job("whole"))
    broken = broken_off(job(), 2)
    for at in (2, 3, 4):
        broken_off(job(resume=True), at)
    start(job(resume=True))
    equal_runs(broken, whole)
    resumed = read(broken, "manifest.json")["resumed"]
    assert [each["after-round"] for each in resumed] == [1, 1, 2, 3]
    assert resumed[0]["versions"] == read(whole, "manifest.json")["versions"]


@pytest.mark.parametrize("keys", [{}, {"checkpoint_every": 0}])
def test_without_a_checkpoint_it_begins_again(job, keys):
    whole = start(job("whole"))
    broken = broken_off(job(**keys), 1 if not keys else 3)
    assert not (broken / CHECKPOINT).exists()
    start(job(**keys, resume=True))
    equal_runs(broken, whole)
    assert len((broken / "preparation.jsonl").read_text().splitlines()) == 4


def test_a_line_that_was_half_written_is_dropped(job):
    whole = start(job("whole"))
    broken = broken_off(job(), 3)
    with open(broken / "rounds.jsonl", "a", encoding="utf-8") as stream:
        stream.write('{"round": 3, "accur')
    start(job(resume=True))
    equal_runs(broken, whole)


def test_the_times_of_both_parts_are_added(job):
    broken = broken_off(job(), 3)
    before = read(broken, "summary.json")["seconds"]
    start(job(resume=True))
    after = read(broken, "summary.json")["seconds"]
    assert after["load"] > before["load"]
    assert after["train"] >= sum(line["seconds"] for line in lines(broken, drop=())[1:])


def test_more_rounds_can_be_asked_for(job):
    whole = start(job("whole"))
    broken = broken_off(job(rounds=3), 3)
    start(job(rounds=ROUNDS, resume=True))
    equal_runs(broken, whole)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"seed": 7}, "seed is 7, but the run in .* was begun with 0; leave it as it was"),
        ({"strategy": "moon"}, "strategy is 'moon', but the run in .* was begun with 'fedoui'"),
        ({"alpha": 0.3}, "alpha is 0.3, but"),
    ],
)
def test_another_run_is_not_gone_on_with(job, keys, text):
    broken = broken_off(job(), 2)
    kept = {path.name: path.read_bytes() for path in broken.iterdir()}
    with pytest.raises(UserError, match=text):
        start(job(**keys, resume=True))
    assert {path.name: path.read_bytes() for path in broken.iterdir()} == kept


def test_other_data_are_not_gone_on_with(job):
    broken = broken_off(job(), 2)
    manifest = read(broken, "manifest.json")
    manifest["digests"]["train"] = "0" * 64
    (broken / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="was begun with another train; it cannot go on"):
        start(job(resume=True))
    assert (broken / CHECKPOINT).is_file()


def test_a_completed_run_has_nothing_left(job):
    start(job())
    with pytest.raises(UserError, match="is completed; there is nothing left to resume"):
        start(job(resume=True))


def test_a_run_that_never_was_cannot_go_on(job):
    with pytest.raises(UserError, match="holds no run that could go on"):
        start(job(resume=True))


def test_a_run_that_goes_on_elsewhere_is_left_alone(job):
    broken = broken_off(job(), 2)
    held = lock(broken)
    with pytest.raises(UserError, match="is still going on; wait for its end"):
        start(job(resume=True))
    held.release()
    start(job(resume=True))


def test_rounds_that_are_missing_are_told(job):
    broken = broken_off(job(), 3)
    (broken / "rounds.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="does not hold the rounds up to the checkpoint's, 2"):
        start(job(resume=True))


def test_a_damaged_checkpoint_is_told_and_can_be_done_without(job):
    whole = start(job("whole"))
    broken = broken_off(job(), 3)
    (broken / CHECKPOINT).write_bytes(b"nonsense")
    with pytest.raises(UserError, match="remove it to begin the run again"):
        start(job(resume=True))
    (broken / CHECKPOINT).unlink()
    start(job(resume=True))
    equal_runs(broken, whole)


def test_lost_states_of_clients_are_told(job):
    settings = job(strategy="scaffold")
    broken = broken_off(settings, 3)
    shutil.rmtree(settings.cache_path / "client-states")
    start(job(strategy="scaffold", resume=True))
    lost = [[p["state-lost"] for p in line["participants"]] for line in lines(broken)[1:]]
    assert lost == [[0] * 4, [0] * 4, [1] * 4, [0] * 4]
