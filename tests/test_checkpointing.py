"""Checkpoints as often as asked for, and one of the last round when a run ends early."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from flwr.supercore.exit.exit_handler import registered_exit_handlers

from fedeas_app.checkpoint import load_checkpoint
from fedeas_app.checkpointing import Checkpoints
from fedeas_app.strategies.state import StrategyState


def model(value):
    return ArrayRecord({"w": Array(np.array([value]))})


def go(settings, directory, rounds, error=None):
    """Finish so many rounds, then end as told; return the rounds whose checkpoint was due."""
    due = []
    try:
        with Checkpoints(settings, directory) as checkpoints:
            for server_round in range(1, rounds + 1):
                state = StrategyState(ArrayRecord(), {"seen": server_round})
                if checkpoints.finished(server_round, model(server_round), lambda s=state: s):
                    due.append(server_round)
            if error is not None:
                raise error
    except type(error or KeyError):
        pass
    return due


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(0), ValueError("x")])
def test_an_early_end_leaves_one_of_the_last_round(configure, tmp_path, error):
    assert go(configure(checkpoint_every=4), tmp_path, 7, error) == [4]
    kept = load_checkpoint(tmp_path)
    assert (kept.server_round, kept.state.values) == (7, {"seen": 7})
    assert kept.arrays["w"].numpy() == [7]


def test_without_an_early_end_there_are_those_asked_for(configure, tmp_path):
    assert go(configure(checkpoint_every=4), tmp_path, 7) == [4]
    assert load_checkpoint(tmp_path).server_round == 4


def test_who_wants_none_gets_none(configure, tmp_path):
    assert go(configure(checkpoint_every=0), tmp_path, 7, KeyboardInterrupt()) == []
    assert list(tmp_path.iterdir()) == []


def test_flower_is_heard_from_another_thread_and_nothing_is_written_afterwards(configure, tmp_path):
    with Checkpoints(configure(checkpoint_every=4), tmp_path) as checkpoints:
        checkpoints.finished(1, model(1), lambda: StrategyState(ArrayRecord(), {}))
        for handler in list(registered_exit_handlers):
            if handler.exit_handler.__module__ == "fedeas_app.checkpointing":
                handler.exit_handler()
        assert load_checkpoint(tmp_path).server_round == 1
        assert not checkpoints.finished(4, model(4), lambda: StrategyState(ArrayRecord(), {}))
    assert load_checkpoint(tmp_path).server_round == 1


def test_a_full_disk_at_the_end_hides_no_other_reason(configure, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedeas_app.files.os.replace", full)
    assert go(configure(checkpoint_every=4), tmp_path, 2, ValueError("the reason")) == []
    assert load_checkpoint(tmp_path) is None
