"""What the starter of a run adds to its record, however the run ends."""

import json
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from fedeas_app.commands import execution
from fedeas_app.commands.execution import execute, run_directory
from fedeas_app.errors import UserError
from fedeas_app.forecast import forecast
from fedeas_app.runs.directory import LAPSED
from fedeas_app.runs.reading import read_run
from fedeas_app.settings import Settings

COUNTS = np.array([[9, 0], [4, 4]])


class Flower:
    """In the place of a simulation: a process that ends at once, and a record."""

    log = "the log"

    def __init__(self, directory, summary, interrupted):
        self._directory = directory
        self._summary = summary
        self._interrupted = interrupted

    def submit(self):
        if self._summary is not None:
            self._directory.mkdir()
            (self._directory / "config.toml").write_text("rounds = 1\n")
            (self._directory / "rounds.jsonl").write_text('{"round": 1, "accuracy": 0.5}\n')
            (self._directory / "summary.json").write_text(json.dumps(self._summary))
            (self._directory / "manifest.json").write_text('{"classes": ["cat", "dog"]}')
        if self._interrupted:
            raise KeyboardInterrupt
        return subprocess.Popen([sys.executable, "-c", ""])

    def log_text(self):
        return self.log

    def complaints(self):
        return "a complaint"


@pytest.fixture
def settings(tmp_path):
    values = {"output-dir": str(tmp_path), "run-name": "r", "num-clients": 2, "beta": 2.0}
    return Settings.parse(values)


@pytest.fixture
def run(monkeypatch, settings):
    """Return what a run with this summary comes to."""

    def ended(summary, *, interrupted=False, refused=""):
        @contextmanager
        def simulation(_):
            yield Flower(run_directory(settings), summary, interrupted)

        monkeypatch.setattr(execution, "simulation", simulation)

        @contextmanager
        def check_elsewhere(_):
            def refuse():
                if refused:
                    raise UserError(refused)

            yield refuse

        monkeypatch.setattr(execution, "check_elsewhere", check_elsewhere)
        seen = []
        expected = forecast(COUNTS, settings.policy, settings.beta)
        return execute(settings, expected, seen.append), seen

    return ended


def counts_are_kept(directory):
    """Tell whether the record holds b = ⌊√4.5 · 2⌋ = 4 images of the class that is absent."""
    counts = read_run(directory).counts
    return (
        counts is not None
        and counts.classes == ("cat", "dog")
        and counts.real.tolist() == COUNTS.tolist()
        and counts.synthetic.tolist() == [[0, 4], [0, 0]]
    )


def test_a_completed_run(run, settings):
    summary, seen = run({"status": "completed", "final": 0.5, "best": 0.5, "auc": 0.5})
    directory = run_directory(settings)
    assert summary["final"] == 0.5
    assert seen[-1] == directory
    assert (directory / "flower.log").read_text() == "the log"
    assert counts_are_kept(directory)


@pytest.mark.parametrize(
    ("summary", "words"),
    [
        ({"status": "failed", "reason": "no luck"}, r"The run failed: no luck \(log: .*flower.log"),
        ({"status": "running"}, "ended from outside .*; go on with: fedeas run --resume .*/r$"),
    ],
)
def test_a_failed_run_says_why_and_keeps_what_is_known(run, settings, summary, words):
    with pytest.raises(UserError, match=words):
        run(summary)
    assert counts_are_kept(run_directory(settings))
    assert json.loads((run_directory(settings) / "summary.json").read_text())["status"] == "failed"


def test_a_server_that_flower_gave_up_is_told_from_one_that_was_ended(run, settings, monkeypatch):
    """As after a minute in which the machine had no time for it; the words are Flower 1.42's."""
    refusal = "[/v1/runtime/send-task-heartbeat] Runtime task-token authentication failed."
    monkeypatch.setattr(Flower, "log", refusal)
    with pytest.raises(UserError, match=r"sign of life.*; go on with: fedeas run --resume .*/r$"):
        run({"status": "running"})
    summary = json.loads((run_directory(settings) / "summary.json").read_text())
    assert (summary["status"], summary["reason"]) == ("failed", LAPSED)


def test_a_run_that_did_not_start_leaves_nothing(run, settings):
    with pytest.raises(UserError, match=r"did not start\. Flower says:\na complaint"):
        run(None)
    assert not run_directory(settings).exists()


def test_a_run_that_is_refused_before_it_starts_leaves_nothing(run, settings):
    with pytest.raises(UserError, match=r"^there is no such device$"):
        run(None, refused="there is no such device")
    assert not run_directory(settings).exists()


@pytest.mark.parametrize("status", ["running", "resuming"])
def test_a_run_that_is_refused_late_has_failed(run, settings, status):
    with pytest.raises(UserError, match=r"^there is no such device$"):
        run({"status": status}, refused="there is no such device")
    summary = json.loads((run_directory(settings) / "summary.json").read_text())
    assert (summary["status"], summary["reason"]) == ("failed", "there is no such device")


def test_an_interrupted_run_says_so_in_its_record(run, settings):
    with pytest.raises(KeyboardInterrupt):
        run({"status": "running"}, interrupted=True)
    summary = json.loads((run_directory(settings) / "summary.json").read_text())
    assert (summary["status"], summary["reason"]) == ("failed", "interrupted")
    assert counts_are_kept(run_directory(settings))
