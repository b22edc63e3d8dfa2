"""What is noted of a run, and when."""

import os
from types import SimpleNamespace

import pytest
import start


@pytest.fixture
def processes(monkeypatch):
    """The processes of a run: when each began, and its command line of now."""
    found = []
    monkeypatch.setattr(start, "marked", lambda mark: found)
    monkeypatch.setattr(start, "words", lambda process: process.line)
    return found


def process(begins, *line):
    return SimpleNamespace(create_time=lambda: begins, line=list(line))


def test_a_process_seen_before_it_has_its_own_command_line_is_known_later(processes, tmp_path):
    watcher = start.Watcher("", tmp_path)
    ray = process(9.0, "python3", "flwr-simulation")  # a copy of its parent's, for a moment
    processes += [process(7.0, "python3", "flwr-simulation"), ray]
    watcher.look()
    ray.line = ["gcs_server", "--log_dir=x"]
    watcher.look()
    assert watcher.events == {"the simulation's process begins": 7.0, "Ray begins": 9.0}


@pytest.mark.usefixtures("processes")
def test_files_count_by_their_lines(tmp_path):
    watcher, rounds = start.Watcher("", tmp_path), tmp_path / "rounds.jsonl"
    for when, text in ((20.0, "{}\n"), (30.0, "{}\n{}\n"), (40.0, "{}\n{}\n{}\n")):
        rounds.write_text(text)
        os.utime(rounds, (when, when))
        watcher.look()
    assert watcher.events == {
        "the first model is evaluated; training begins": 20.0,
        start.FIRST_ROUND: 30.0,
    }


def test_rows_say_how_long_each_took():
    assert list(start.rows({"one": 0.5, "two": 2.0})) == [
        ("one", "0.5", "+0.5"),
        ("two", "2.0", "+1.5"),
    ]
