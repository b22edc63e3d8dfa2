"""Several real processes that share one training; each takes some seconds to start.

They import this module: what they run is at its top.
"""

import os
import signal
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fedeas_app.errors import UserError
from fedeas_app.generators.processes import share

WEIGHTS = "unet/diffusion_pytorch_model.safetensors"


def rank():
    return int(os.environ["RANK"])


def micro_training(split, training, target, die_at=None):
    """Train as usual; the second process may die in the middle."""
    from micro_preset import MICRO

    from fedeas_app.generators import network
    from fedeas_app.generators.trainer import Trainer
    from fedeas_app.generators.training import Cadence, train

    network.PRESETS["micro"] = MICRO
    if die_at is not None and rank() == 1:
        advance = Trainer.advance

        def limited(trainer):
            if trainer.step == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return advance(trainer)

        Trainer.advance = limited
    train(split, training, target, cadence=Cadence(5, 1000))


def note_environment(directory):
    import torch

    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    seen = [*(os.environ[name] for name in (*names, "OMP_NUM_THREADS")), torch.get_num_threads()]
    (directory / str(rank())).write_text(" ".join(map(str, seen)))


def make_a_mistake(only):
    if rank() in only:
        raise UserError(f"Mistake of process {rank()}.")
    time.sleep(600)


def fail(only):
    if rank() in only:
        raise RuntimeError("a bug")
    time.sleep(600)


def be_interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(600)


def outlive(directory):
    (directory / str(rank())).write_text(str(os.getpid()))
    time.sleep(600)


def share_outliving(directory):
    """Be the parent that gets killed."""
    share(partial(outlive, directory), 2)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_one_process_is_this_one():
    pids = []
    share(lambda: pids.append(os.getpid()), 1)  # a lambda could not be sent elsewhere
    assert pids == [os.getpid()]
    with pytest.raises(KeyError):
        share(lambda: os.environ["RANK"], 1)


def test_each_process_knows_its_place_and_its_share_of_the_cores(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    share(partial(note_environment, tmp_path), 2)
    places = [(tmp_path / str(k)).read_text().split() for k in range(2)]
    port, threads = places[0][5], str(max(1, os.cpu_count() // 2))
    for k, place in enumerate(places):
        assert place == [str(k), str(k), "2", "2", "127.0.0.1", port, threads, threads]
    assert "RANK" not in os.environ


@pytest.mark.parametrize("only", [(1,), (0, 1)])
def test_a_mistake_in_one_is_its_sentence_and_ends_the_others(only, capfd):
    with pytest.raises(UserError, match=r"^Mistake of process [01]\.$"):
        share(partial(make_a_mistake, only), 2)
    assert capfd.readouterr() == ("", "")


def test_a_bug_in_one_keeps_its_traceback(capfd):
    with pytest.raises(UserError, match=r"A training process died \(exit statuses .*\b1\b"):
        share(partial(fail, (1,)), 2)
    assert 'raise RuntimeError("a bug")' in capfd.readouterr().err


def test_interrupting_all_of_them_prints_nothing(capfd):
    """Ctrl-C reaches the whole group of processes."""
    with pytest.raises(UserError, match="died"):
        share(be_interrupted, 2)
    assert capfd.readouterr() == ("", "")


def test_they_do_not_outlive_their_parent(tmp_path):
    from multiprocessing import get_context

    parent = get_context("spawn").Process(target=share_outliving, args=(tmp_path,))
    parent.start()
    places = [tmp_path / str(k) for k in range(2)]
    try:
        wait_until(lambda: all(place.exists() and place.read_text() for place in places))
    finally:
        parent.kill()
        parent.join()
    wait_until(lambda: not any(is_running(int(place.read_text())) for place in places))


def wait_until(condition):
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_two_processes_learn_what_one_does(make_split, tmp_path):
    """Takes some seconds: each of the two loads the libraries."""
    from safetensors.torch import load_file

    from fedeas_app.generators.trainer import Training
    from fedeas_app.generators.training import train

    split, training = make_split(), Training("micro", 20, 6, 0, "cpu")
    one = load_file(train(split, training, tmp_path / "one") / WEIGHTS)
    share(partial(micro_training, split, training, tmp_path / "two"), 2)
    two = load_file(tmp_path / "two" / WEIGHTS)
    first = load_file(
        train(split, Training("micro", 20, 6, 1, "cpu"), tmp_path / "other") / WEIGHTS
    )
    # The gradient is the same sum in another order: float32 rounds it by about 1e-7 of its size.
    # AdamW divides it by its own size, so where it is next to nothing a step of up to 2e-3 may
    # go elsewhere; that is rare and small beside what another seed does.
    apart = np.concatenate([(one[name] - two[name]).abs().flatten() for name in one])
    seeds_apart = np.concatenate([(one[name] - first[name]).abs().flatten() for name in one])
    assert np.median(apart) < 1e-6
    assert apart.max() < 2e-3
    assert np.median(seeds_apart) > 1e-2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other", "two"]


def test_a_killed_member_is_one_sentence_and_the_training_goes_on(make_split, tmp_path, capfd):
    """Takes some seconds: each of the two loads the libraries."""
    from fedeas_app.generators.trainer import Training
    from fedeas_app.generators.training import train

    split, training = make_split(), Training("micro", 12, 6, 0, "cpu")
    with pytest.raises(UserError, match=r"A training process died .*-9") as caught:
        share(partial(micro_training, split, training, tmp_path / "a", die_at=7), 2)
    assert "the same command continues from the last checkpoint" in str(caught.value)
    assert capfd.readouterr().err == ""
    resumed = []
    train(split, training, tmp_path / "a", resumed=resumed.append)
    assert resumed == [5]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
