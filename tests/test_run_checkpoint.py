"""The file that an interrupted run goes on from."""

import hashlib
import json

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from fedeas_app.checkpoint import Checkpoint, is_due, load_checkpoint, restoring
from fedeas_app.errors import UserError
from fedeas_app.runs.resuming import CHECKPOINT
from fedeas_app.strategies.state import StrategyState

MODEL = {
    "z.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a.bias": np.array([np.pi, -0.0], np.float64),
    "steps": np.array(7, np.int64),
}
VALUES = {"key": "k", "accepted": {"3": 2}, "oui-window": [[0.1, 1 / 3]]}


def record(arrays):
    return ArrayRecord({name: Array(array) for name, array in arrays.items()})


def checkpoint(server_round=4, arrays=MODEL, beside=None, values=VALUES):
    return Checkpoint(server_round, record(arrays), StrategyState(record(beside or {}), values))


def equal(found, expected):
    return list(found) == list(expected) and all(
        found[name].dtype == str(array.dtype)
        and found[name].numpy().tobytes() == array.tobytes()
        and found[name].numpy().shape == array.shape
        for name, array in expected.items()
    )


@pytest.mark.parametrize("beside", [{}, {"m/a.bias": np.ones(2, np.float32), "a": np.zeros(1)}])
def test_what_was_kept_is_found_again_bit_for_bit(tmp_path, beside):
    checkpoint(beside=beside).save(tmp_path)
    found = load_checkpoint(tmp_path)
    assert found.server_round == 4
    assert equal(found.arrays, MODEL)  # in their order, too
    assert equal(found.state.arrays, beside)
    assert found.state.values == VALUES


def test_the_last_one_alone_is_kept(tmp_path):
    checkpoint(1).save(tmp_path)
    checkpoint(2).save(tmp_path)
    assert load_checkpoint(tmp_path).server_round == 2
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def test_a_run_may_have_come_to_none(tmp_path):
    assert load_checkpoint(tmp_path) is None


def test_the_old_one_stays_while_a_new_one_cannot_be_written(tmp_path, monkeypatch):
    checkpoint(1).save(tmp_path)
    monkeypatch.setattr("fedeas_app.files.os.replace", _full)
    with pytest.raises(UserError, match=r"cannot be written \(no space\); free some space"):
        checkpoint(2).save(tmp_path)
    assert load_checkpoint(tmp_path).server_round == 1
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def _full(*paths):
    raise OSError("no space")


@pytest.mark.parametrize(
    ("every", "due"), [(0, []), (1, [1, 2, 3, 4, 5, 6]), (2, [2, 4, 6]), (4, [4]), (9, [])]
)
def test_rounds_after_which_one_is_due(configure, every, due):
    settings = configure(checkpoint_every=every)
    assert [number for number in range(1, 7) if is_due(number, settings)] == due


@given(st.data())
def test_a_damaged_file_is_told_in_a_sentence(tmp_path_factory, data):
    directory = tmp_path_factory.getbasetemp() / "damaged"
    directory.mkdir(exist_ok=True)
    checkpoint().save(directory)
    path = directory / CHECKPOINT
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    kept = bytearray(whole[: data.draw(st.integers(place + 1, len(whole)))])
    kept[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(kept)
    with pytest.raises(UserError, match=r"cannot be read \(") as told:
        load_checkpoint(directory)
    assert str(told.value).startswith(f"The checkpoint {path} cannot be read (")


@pytest.mark.parametrize(
    "values",
    [
        "[]",
        "{}",
        "nonsense",
        json.dumps({"round": 0, "names": {"model": [], "strategy": []}, "values": {}}),
        json.dumps({"round": True, "names": {"model": [], "strategy": []}, "values": {}}),
        json.dumps({"round": 1, "names": {"model": [], "strategy": []}, "values": []}),
        json.dumps({"round": 1, "names": {"model": ["b"], "strategy": []}, "values": {}}),
        json.dumps({"round": 1, "names": {"model": "a", "strategy": []}, "values": {}}),
        json.dumps({"round": 1, "names": {"model": []}, "values": {}}),
        json.dumps({"round": 1, "names": ["model", "strategy"], "values": {}}),
        "[" * 100_000,
        None,
    ],
)
def test_a_file_of_something_else_is_told_in_a_sentence(tmp_path, values):
    tensors = {"model/a": np.zeros(1)}
    metadata = None if values is None else {"fedeas": values, "sha256": summed(values, tensors)}
    save_file(tensors, tmp_path / CHECKPOINT, metadata)
    with pytest.raises(UserError, match=r"cannot be read \(.*\); remove it to begin"):
        load_checkpoint(tmp_path)


def summed(values, tensors):
    """The checksum over text, then name, type, shape and bytes of each array."""
    parts = [values.encode()]
    for name in sorted(tensors):
        array = tensors[name]
        parts += [f"{name} {array.dtype} {array.shape}".encode(), array.tobytes()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def test_a_forged_one_without_what_a_strategy_needs_is_told_in_a_sentence(tmp_path):
    with (
        pytest.raises(UserError, match=r"cannot be read \('key'\); remove it to begin"),
        restoring(tmp_path),
    ):
        raise KeyError("key")


def test_it_is_readable_without_this_app(tmp_path):
    checkpoint().save(tmp_path)
    with safe_open(tmp_path / CHECKPOINT, "numpy") as file:
        assert set(file.keys()) == {f"model/{name}" for name in MODEL}
        assert np.array_equal(file.get_tensor("model/z.weight"), MODEL["z.weight"])
