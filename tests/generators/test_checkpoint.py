"""Whose a checkpoint is, and how far; that it restores everything, the training's tests show."""

from dataclasses import replace

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from fedeas_app.errors import UserError
from fedeas_app.generators.checkpoint import Checkpoint, step_of
from fedeas_app.generators.trainer import Trainer, Training

MICRO = Training("micro", 25, 6, 0, "cpu")


@pytest.fixture
def trained_for_two_steps(make_split, tmp_path):
    trainer = Trainer(make_split(), MICRO)
    trainer.advance()
    trainer.advance()
    Checkpoint(tmp_path, trainer).save()
    return trainer


def restore(split, place, **changes):
    trainer = Trainer(split, replace(MICRO, **changes))
    Checkpoint(place, trainer).restore()
    return trainer


def test_it_says_how_far_it_is(trained_for_two_steps, tmp_path):
    assert step_of(tmp_path) == 2
    path = tmp_path / "state.safetensors"
    save_file(load_file(path), path)  # without what stands beside the tensors
    assert step_of(tmp_path) == 0
    path.write_bytes(b"garbage")
    assert step_of(tmp_path) == 0
    assert step_of(tmp_path / "absent") == 0


def test_auto_is_the_precision_that_it_means(trained_for_two_steps, make_split, tmp_path):
    assert restore(make_split(), tmp_path, precision="float32").step == 2


def test_it_names_what_differs(trained_for_two_steps, make_split, tmp_path):
    changes = {"precision": "bfloat16", "seed": 1}
    with pytest.raises(UserError, match=r"other options or data \(seed, precision\); repeat"):
        restore(make_split(), tmp_path, **changes)
    with pytest.raises(UserError, match=r"other options or data \(data\); repeat"):
        restore(replace(make_split(), digest="another"), tmp_path)


@pytest.mark.parametrize("rest", ["[1]", '{"step": 1e999}', '{"step": null}', "[" * 100_000])
def test_damaged_notes_beside_the_tensors_are_no_crash(
    trained_for_two_steps, make_split, tmp_path, rest
):
    path = tmp_path / "state.safetensors"
    with safe_open(path, "pt") as stored:
        about = stored.metadata()
    save_file(load_file(path), path, about | {"rest": rest})
    assert step_of(tmp_path) == 0
    with pytest.raises(UserError, match="is damaged"):
        restore(make_split(), tmp_path)
    save_file(load_file(path), path, about | {"training": rest})
    with pytest.raises(UserError, match=r"is damaged|other options"):
        restore(make_split(), tmp_path)
