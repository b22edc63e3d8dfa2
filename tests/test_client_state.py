"""What a client keeps between rounds: found again, or gone; never another's."""

import os

import pytest
import torch

from fedeas_app.client_state import Address, ClientState, forget
from fedeas_app.errors import UserError

CPU = torch.device("cpu")
KEY, OTHER = "0" * 31 + "a", "0" * 31 + "b"


def tensors(value):
    return {"w": torch.full((2, 3), float(value)), "steps": torch.tensor(value)}


def state(cache, accepted, *, key=KEY, partition=4):
    return ClientState(cache, Address(key, accepted), partition)


def equal(found, expected):
    return list(found) == list(expected) and all(torch.equal(found[n], expected[n]) for n in found)


def test_the_next_round_finds_what_the_last_one_kept(tmp_path):
    first = state(tmp_path, 0)
    assert first.load(CPU) == {}
    assert first.lost({}) is False
    first.save(3, tensors(3))
    again = state(tmp_path, 3)
    kept = again.load(CPU)
    assert {name: t.dtype for name, t in kept.items()} == {"w": torch.float32, "steps": torch.int64}
    assert torch.equal(kept["w"], torch.full((2, 3), 3.0))
    assert kept["steps"] == 3
    assert again.lost(kept) is False


def test_a_round_that_did_not_count_is_passed_over(tmp_path):
    state(tmp_path, 0).save(1, tensors(1))
    state(tmp_path, 1).save(2, tensors(2))  # this reply is lost: the server goes on from round 1
    retried = state(tmp_path, 1)
    assert retried.load(CPU)["steps"] == 1
    retried.save(5, tensors(5))
    assert state(tmp_path, 5).load(CPU)["steps"] == 5
    assert state(tmp_path, 1).load(CPU)["steps"] == 1
    assert state(tmp_path, 2).load(CPU) == {}


def test_no_more_than_two_rounds_are_kept(tmp_path):
    for server_round in range(1, 6):
        state(tmp_path, server_round - 1).save(server_round, tensors(server_round))
        state(tmp_path, server_round - 1, partition=44).save(server_round, tensors(0))
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {f"{k}-{r}.safetensors" for k in (4, 44) for r in (4, 5)}


def test_the_state_that_a_checkpoint_needs_is_kept_besides(tmp_path):
    for server_round in range(1, 6):
        address = Address(KEY, server_round - 1, min(server_round - 1, 2))
        ClientState(tmp_path, address, 4).save(server_round, tensors(server_round))
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {f"4-{r}.safetensors" for r in (2, 4, 5)}
    assert state(tmp_path, 2).load(CPU)["steps"] == 2


def test_other_runs_and_other_clients_find_nothing(tmp_path):
    state(tmp_path, 0).save(1, tensors(1))
    for stranger in (state(tmp_path, 1, key=OTHER), state(tmp_path, 1, partition=3)):
        assert stranger.load(CPU) == {}
        assert stranger.lost({}) is True


@pytest.mark.parametrize("damage", [b"", b"\x00" * 40, b"pickle"])
def test_a_damaged_state_is_a_lost_one(tmp_path, damage):
    state(tmp_path, 0).save(1, tensors(1))
    (path,) = tmp_path.rglob("*.safetensors")
    path.write_bytes(damage)
    assert state(tmp_path, 1).load(CPU) == {}
    assert state(tmp_path, 1).lost({}) is True


def test_where_nothing_is_to_be_kept_nothing_is(tmp_path):
    none = ClientState(tmp_path, None, 4)
    none.save(1, tensors(1))
    assert none.load(CPU) == {}
    assert none.lost({}) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("key", ["", "..", "../../etc", "A" * 32, "0" * 33, "0" * 31 + "\n"])
def test_a_key_that_is_no_name_is_refused(tmp_path, key):
    with pytest.raises(UserError, match="32 hexadecimal digits"):
        state(tmp_path, 0, key=key).save(1, tensors(1))
    assert not list(tmp_path.iterdir())


def test_a_run_that_is_over_is_forgotten_and_no_other(tmp_path):
    for key in (KEY, OTHER):
        state(tmp_path, 0, key=key).save(1, tensors(1))
    forget(tmp_path, KEY)
    forget(tmp_path, KEY)
    assert state(tmp_path, 1).load(CPU) == {}
    assert state(tmp_path, 1, key=OTHER).load(CPU)["steps"] == 1


def test_what_was_left_behind_a_month_ago_is_removed_by_the_next_run(tmp_path):
    days = {"1" * 32: 29, "2" * 32: 31}
    for key, age in days.items():
        state(tmp_path, 0, key=key).save(1, tensors(1))
        directory = tmp_path / "client-states" / key
        then = directory.stat().st_mtime - age * 86_400
        os.utime(directory, (then, then))
        state(tmp_path, 1, key=key)  # reading does not make it younger
    state(tmp_path, 0).save(1, tensors(1))
    assert {path.name for path in (tmp_path / "client-states").iterdir()} == {KEY, "1" * 32}


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        state(tmp_path / "file", 0).save(1, tensors(1))
