"""A machine whose clock is set back, or far ahead, while a run goes on."""

import json
import time

import pytest
from fake_grid import FakeGrid
from flwr.app import Context, RecordDict

import server_app
from fedeas_app.runs.reading import read_run


@pytest.mark.parametrize("jump", [-86_400.0, 40 * 86_400.0])
def test_durations_do_not_notice(configure, monkeypatch, jump):
    """Files that are older than a month by the clock are given up: 40 days are more."""
    ahead, real = [0.0], time.time

    def jumping():
        ahead[0] += jump
        return real() + ahead[0]

    monkeypatch.setattr(time, "time", jumping)
    settings = configure(strategy="scaffold", rounds=2)
    server_app.main(FakeGrid(settings), Context(1, 0, {}, RecordDict(), settings.to_flat()))
    run = read_run(settings.output_path / "run")
    assert run.completed
    assert all(0 <= seconds < 600 for seconds in run.summary["seconds"].values())
    assert all(0 <= line["seconds"] < 600 for line in run.rounds)
    lines = (run.directory / "preparation.jsonl").read_text().splitlines()
    assert all(0 <= json.loads(line)["seconds"] < 600 for line in lines)
    assert not any(p["state-lost"] for line in run.rounds[1:] for p in line["participants"])
