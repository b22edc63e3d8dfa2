"""What may go on, and what is kept of it; whole runs that do are in tests/test_resume.py."""

import json

import pytest
import tomli_w

from fedeas_app.commands.configuration import resumed_settings
from fedeas_app.errors import UserError
from fedeas_app.runs.resuming import cut_back, lock, require_resumable, unlock
from fedeas_app.settings import Settings


def broken_off(directory, status="failed", **keys):
    directory.mkdir()
    settings = Settings.parse({"num-clients": 4, "cache-dir": "/c"} | keys)
    flat = {key: v for key, v in settings.to_flat().items() if key not in ("run-name", "resume")}
    (directory / "config.toml").write_text(tomli_w.dumps(flat))
    (directory / "summary.json").write_text(json.dumps({"status": status, "seconds": {"load": 1}}))
    return settings


def test_the_command_takes_the_settings_of_the_record(tmp_path, monkeypatch):
    broken_off(tmp_path / "mine", seed=3, rounds=9)
    monkeypatch.chdir(tmp_path)
    settings = resumed_settings((tmp_path / "mine").relative_to(tmp_path), ["rounds=12"])
    assert (settings.resume, settings.run_name) == (True, "mine")
    assert settings.output_path == tmp_path
    assert (settings.seed, settings.rounds, settings.num_clients) == (3, 12, 4)
    assert not (tmp_path / "mine" / ".lock").exists()


@pytest.mark.parametrize("keys", [["seed=4"], ["strategy=moon"], ["cache-dir=/d", "beta=2"]])
def test_the_command_refuses_to_make_another_run_of_it(tmp_path, keys):
    broken_off(tmp_path / "mine", seed=3)
    with pytest.raises(UserError, match="leave it as it was, or start a new run"):
        resumed_settings(tmp_path / "mine", keys)


@pytest.mark.parametrize(
    "key",
    [
        "cache-dir=/elsewhere", "device=cpu", "threads=2", "min-replies=2", "generator-checked=9",
        "generator-max-copies=0.5",
    ],
)  # fmt: skip
def test_how_and_where_it_runs_may_change(tmp_path, key):
    broken_off(tmp_path / "mine")
    assert resumed_settings(tmp_path / "mine", [key]).resume


def test_auto_is_what_it_came_to(tmp_path):
    broken_off(tmp_path / "mine", beta=14.0)
    settings = Settings.parse({"num-clients": "auto", "beta": "auto"})
    assert require_resumable(tmp_path / "mine", settings)["seconds"] == {"load": 1}


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000])
def test_a_damaged_summary_is_told(tmp_path, content):
    settings = broken_off(tmp_path / "mine")
    (tmp_path / "mine" / "summary.json").write_text(content)
    with pytest.raises(UserError, match=r"summary\.json cannot be read"):
        require_resumable(tmp_path / "mine", settings)


@pytest.mark.parametrize("missing", ["config.toml", "summary.json"])
def test_a_directory_without_a_run_is_told(tmp_path, missing):
    settings = broken_off(tmp_path / "mine")
    (tmp_path / "mine" / missing).unlink()
    with pytest.raises(UserError, match="holds no run that could go on"):
        require_resumable(tmp_path / "mine", settings)


def test_only_what_came_after_the_checkpoint_is_dropped(tmp_path):
    lines = [json.dumps({"round": number, "accuracy": number / 10}) + "\n" for number in range(5)]
    (tmp_path / "rounds.jsonl").write_text("".join(lines) + '{"round": 5')
    (tmp_path / "preparation.jsonl").write_text("{}\n")
    kept = cut_back(tmp_path, 3)
    assert [line["round"] for line in kept] == [0, 1, 2, 3]
    assert (tmp_path / "rounds.jsonl").read_text() == "".join(lines[:4])
    assert (tmp_path / "preparation.jsonl").exists()
    assert cut_back(tmp_path, 0) == []
    assert not list(tmp_path.iterdir())


def test_a_record_is_one_process_s(tmp_path):
    held = lock(tmp_path)
    with pytest.raises(UserError, match="is still going on"):
        lock(tmp_path)
    unlock(held)
    assert not list(tmp_path.iterdir())
    unlock(lock(tmp_path))
