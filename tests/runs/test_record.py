"""The record of a run, file by file."""

import json
import tomllib

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from safetensors.numpy import load_file

from fedeas_app.errors import UserError
from fedeas_app.preparation import ClientPlan, Plan
from fedeas_app.runs.record import RunRecord
from fedeas_app.settings import Settings
from fedeas_app.strategies.report import Participant, RoundReport

CLIENT = ClientPlan(0, 100, 20, 5, 0.5, 0.25, 1.5)


def content(record, name):
    return json.loads((record.directory / name).read_text(encoding="utf-8"))


def lines(record, name):
    text = (record.directory / name).read_text(encoding="utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def report(loss=2.0, failures=None):
    people = (
        Participant(1, 30, 0.2, loss, 0.9, 0.75, {"agreement": 0.5, "drift": 3.0}),
        Participant(4, 10, 0.4, loss, 0.1, 0.25),
    )
    return RoundReport(people, failures or {}, 2.5)


@pytest.mark.parametrize("keys", [{}, {"beta": "auto", "num_clients": "auto", "alpha": 1}])
def test_the_configuration_is_kept_whole_and_repeats_the_run(configure, keys):
    settings = configure(**keys)
    record = RunRecord(settings)
    kept = tomllib.loads((record.directory / "config.toml").read_text(encoding="utf-8"))
    assert Settings.parse(kept | {"run-name": settings.run_name}) == settings
    assert len(kept) == len(Settings.model_fields) - 2  # defaults included
    assert not {"run-name", "resume"} & set(kept)  # or it could not be run again


def test_the_plan_resolves_what_was_left_to_it(configure):
    settings = configure(beta="auto", num_clients="auto", policy="fedeas")
    record = RunRecord(settings)
    record.add_plan(Plan(14.0, (CLIENT, CLIENT, CLIENT), {}, {}), settings)
    kept = tomllib.loads((record.directory / "config.toml").read_text(encoding="utf-8"))
    assert kept["beta"] == 14.0
    assert kept["num-clients"] == 3


def test_a_run_is_running_until_it_ends(configure):
    record = RunRecord(configure(run_name="mine"))
    assert record.directory == configure().output_path / "mine"
    assert content(record, "summary.json") == {"status": "running", "seconds": {}}


def test_a_taken_name_is_refused_and_its_files_stay(configure):
    record = RunRecord(configure(run_name="mine"))
    before = {p.name: p.read_bytes() for p in record.directory.iterdir()}
    with pytest.raises(UserError, match="mine exists already; choose another run-name"):
        RunRecord(configure(run_name="mine", rounds=9))
    assert {p.name: p.read_bytes() for p in record.directory.iterdir()} == before


def test_unnamed_runs_of_one_second_have_names_of_their_own(configure, monkeypatch):
    monkeypatch.setattr("time.strftime", lambda form: "20250101-120000")
    settings = configure(run_name="", seed=6, policy="fedeas", strategy="fedoui")
    names = [RunRecord(settings).directory.name for _ in range(3)]
    first = "20250101-120000-fedoui-fedeas-s6"
    assert names == [first, f"{first}-2", f"{first}-3"]


def test_a_place_that_cannot_be_written_is_named(configure, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        RunRecord(configure(output_dir=str(tmp_path / "file")))


def test_clients_and_plan_are_kept(configure):
    record = RunRecord(configure())
    expected = {
        "partition-id": 0,
        "num-examples": 100,
        "synthetic": 20,
        "made": 5,
        "imbalance-before": 0.5,
        "imbalance-after": 0.25,
        "seconds": 1.5,
    }
    record.add_client(CLIENT)
    record.add_client(CLIENT)
    record.add_plan(Plan(12.0, (CLIENT,), {0: 99}, {}), configure())
    record.add_manifest({"digests": {"train": "abc"}})
    assert lines(record, "preparation.jsonl") == [expected, expected]
    assert content(record, "plan.json") == {
        "beta": 12.0,
        "real": 100,
        "synthetic": 20,
        "made": 5,
        "imbalance-before": 0.5,
        "imbalance-after": 0.25,
        "generator-digest": "",
        "clients": [expected],
    }
    assert content(record, "manifest.json") == {"digests": {"train": "abc"}}


def test_each_round_is_a_line(configure):
    record = RunRecord(configure())
    record.add_round(0, {"accuracy": 0.1, "loss": 2.3}, None)
    record.add_round(1, {"accuracy": 0.4, "loss": 1.7}, report(2.0, {3: "Out of memory."}))
    initial, first = lines(record, "rounds.jsonl")
    assert initial.pop("seconds") >= 0
    assert initial == {"round": 0, "accuracy": 0.1, "loss": 2.3}
    assert first.pop("seconds") >= 0
    assert first == {
        "round": 1,
        "accuracy": 0.4,
        "loss": 1.7,
        "train-loss": 2.0,
        "effective-clients": pytest.approx(1 / (0.75**2 + 0.25**2)),
        "drift": 2.5,
        "participants": [
            {"partition": 1, "num-examples": 30, "oui": 0.2, "loss": 2.0, "score": 0.9,
             "weight": 0.75, "agreement": 0.5, "drift": 3.0},
            {"partition": 4, "num-examples": 10, "oui": 0.4, "loss": 2.0, "score": 0.1,
             "weight": 0.25},
        ],
        "failures": {"3": "Out of memory."},
    }  # fmt: skip


def test_completion_keeps_model_plot_and_summary(configure):
    record = RunRecord(configure())
    record.add_round(0, {"accuracy": 0.9, "loss": 1.0}, None)  # the initial model is no result
    for number, accuracy in enumerate([0.2, 0.6, 0.4], start=1):
        record.add_round(number, {"accuracy": accuracy, "loss": 1.0}, report())
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    summary = record.complete(ArrayRecord({"w": Array(weights), "n": Array(np.array(3))}))
    assert summary == content(record, "summary.json")
    assert summary["status"] == "completed"
    assert summary["final"] == 0.4
    assert summary["best"] == 0.6
    assert summary["auc"] == pytest.approx((0.4 + 0.5) / 2)
    kept = load_file(record.directory / "model.safetensors")
    assert np.array_equal(kept["w"], weights)
    assert kept["n"].dtype == np.int64
    assert (record.directory / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    assert not [p.name for p in record.directory.iterdir() if p.name.startswith(".")]


def test_phases_are_timed_also_when_they_fail(configure, monkeypatch):
    record = RunRecord(configure())
    times = iter([10.0, 12.5, 20.0, 21.0])
    monkeypatch.setattr("fedeas_app.runs.record.time.perf_counter", lambda: next(times))
    with record.phase("load"):
        pass
    with pytest.raises(RuntimeError), record.failure_noted(), record.phase("train"):
        raise RuntimeError("broken")
    assert content(record, "summary.json")["seconds"] == {"load": 2.5, "train": 1.0}


def test_rounds_take_no_longer_than_their_phase(configure, monkeypatch):
    record = RunRecord(configure())
    times = iter([10.0, 12.5, 14.0, 15.0])
    monkeypatch.setattr("fedeas_app.runs.record.time.perf_counter", lambda: next(times))
    with record.phase("train"):
        record.add_round(0, {"accuracy": 0.1}, None)
        record.add_round(1, {"accuracy": 0.2}, report())
    assert [line["seconds"] for line in lines(record, "rounds.jsonl")] == [2.5, 1.5]
    assert content(record, "summary.json")["seconds"] == {"train": 5.0}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (UserError("One sentence."), "One sentence."),
        (ValueError("odd"), "ValueError('odd')"),
        (KeyboardInterrupt(), "KeyboardInterrupt()"),
    ],
)
def test_the_reason_of_a_failure_is_kept_and_passed_on(configure, error, reason):
    record = RunRecord(configure())
    with pytest.raises(type(error)), record.failure_noted():
        raise error
    summary = content(record, "summary.json")
    assert (summary["status"], summary["reason"]) == ("failed", reason)


def test_success_is_no_failure(configure):
    record = RunRecord(configure())
    with record.failure_noted():
        pass
    assert content(record, "summary.json")["status"] == "running"


@pytest.mark.parametrize("participants", [(), report().participants])
def test_the_round_in_which_a_run_fails_is_kept_with_its_reasons(configure, participants):
    record = RunRecord(configure())
    reports = {1: report()}
    record.add_round(1, {"accuracy": 0.4}, reports[1])
    reports[2] = RoundReport(participants, {3: "Out of memory."})
    with pytest.raises(UserError, match="lost"), record.last_round_noted(reports):
        raise UserError("All is lost.")
    first, broken = lines(record, "rounds.jsonl")
    assert (first["round"], broken["round"]) == (1, 2)
    assert broken["failures"] == {"3": "Out of memory."}
    assert len(broken["participants"]) == len(participants)
    assert "accuracy" not in broken


def test_a_run_that_fails_between_rounds_leaves_no_round_more(configure):
    record = RunRecord(configure())
    record.add_round(1, {"accuracy": 0.4}, report())
    with pytest.raises(OSError, match="full"), record.last_round_noted({1: report()}):
        raise OSError("full")
    assert len(lines(record, "rounds.jsonl")) == 1
