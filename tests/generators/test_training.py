"""Training a generator: repeatable, continued after an interruption, documented, refused early."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from importlib.metadata import version

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from fedeas_app.errors import UserError
from fedeas_app.files import write_bytes
from fedeas_app.generators import checkpoint as checkpoint_module
from fedeas_app.generators import saving
from fedeas_app.generators.card import Origin
from fedeas_app.generators.checkpoint import step_of
from fedeas_app.generators.trainer import Trainer, Training
from fedeas_app.generators.training import Cadence, train
from fedeas_app.generators.workshop import workshop_of

WEIGHTS = "unet/diffusion_pytorch_model.safetensors"
MICRO = Training("micro", 25, 6, 0, "cpu")


def interrupted(split, target, training=MICRO, *, at=20, checkpoint=7):
    """Start a training and leave it, as Ctrl-C does, after so many steps."""

    def stop(step, loss, images_per_second):
        if step >= at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(split, training, target, cadence=Cadence(checkpoint, 10), observe=stop)
    return workshop_of(target) / "state.safetensors"


def bits(target):
    return (target / WEIGHTS).read_bytes()


@pytest.fixture(scope="module")
def uninterrupted(_micro_preset, make_split, tmp_path_factory):
    return train(make_split(), MICRO, tmp_path_factory.mktemp("whole") / "generator")


def test_one_seed_gives_the_same_bits(make_split, tmp_path):
    split = make_split()
    for name, seed in [("a", 0), ("b", 0), ("c", 1)]:
        torch.manual_seed(len(name) + seed)  # the global stream must not matter
        train(split, Training("micro", 4, 6, seed, "cpu"), tmp_path / name)
    first, again, other = (bits(tmp_path / name) for name in "abc")
    assert first == again
    assert first != other


def test_the_weights_learn(make_split, tmp_path):
    split, heard = make_split(), []
    target = train(
        split,
        Training("micro", 65, 12, 0, "cpu"),
        tmp_path / "a",
        observe=lambda *heard_now: heard.append(heard_now),
    )
    assert [step for step, *_ in heard] == [10, 20, 30, 40, 50, 60, 65]
    loss = np.array([loss for _, loss, _ in heard])
    assert np.isfinite(loss).all()
    assert loss[-2:].mean() < 0.9 * loss[0]
    assert all(speed > 0 for *_, speed in heard)
    assert all(torch.isfinite(tensor).all() for tensor in load_file(target / WEIGHTS).values())


def test_what_is_heard_is_the_mean_loss_since_the_last_time(make_split, tmp_path):
    split, heard = make_split(), []
    trainer = Trainer(split, MICRO)
    losses = [float(trainer.advance()) for _ in range(25)]
    train(split, MICRO, tmp_path / "a", observe=lambda _, loss, __: heard.append(loss))
    parts = losses[:10], losses[10:20], losses[20:]
    assert heard == pytest.approx([np.mean(part) for part in parts], rel=1e-6)


def test_the_layout_is_diffusers_own(trained):
    from diffusers import DDPMScheduler, UNet2DModel

    files = {str(path.relative_to(trained)) for path in trained.rglob("*") if path.is_file()}
    assert files == {
        "card.json",
        "samples/step-0000050.png",
        "scheduler/scheduler_config.json",
        "unet/config.json",
        WEIGHTS,
    }
    unet = UNet2DModel.from_pretrained(trained / "unet", use_safetensors=True)
    assert unet.config.num_class_embeds == 4  # three classes and the null label
    assert tuple(unet.config.sample_size) == (8, 8)
    scheduler = DDPMScheduler.from_pretrained(trained / "scheduler")
    assert scheduler.config.num_train_timesteps == 1000
    assert scheduler.config.beta_schedule == "squaredcos_cap_v2"


def test_what_is_saved_is_the_averaged_network(make_split, tmp_path):
    split = make_split()
    trainer = Trainer(split, MICRO)
    for _ in range(25):
        trainer.advance()
    saved = load_file(train(split, MICRO, tmp_path / "a") / WEIGHTS)
    for name, value in trainer.averaged().state_dict().items():
        assert torch.equal(saved[name], value), name


def test_the_card_says_where_it_comes_from(trained):
    card = json.loads((trained / "card.json").read_text())
    training = Training("micro", 50, 6, 0, "cpu")
    decided = {"learning_rate": 2e-3, "precision": "float32"}  # the preset's, and auto on a CPU
    assert card["classes"] == ["class 0", "class 1", "class 2"]
    assert card["null-label"] == 3
    assert card["image-shape"] == [8, 8, 1]
    assert card["pixel-unshuffle"] == 1
    assert card["data"] == {"dataset": None, "revision": None, "split": "train", "images": 12}
    assert card["data-digest"] == "some-digest"
    assert card["images-seen"] == 300
    assert card["training"] == asdict(training) | decided
    assert card["versions"].keys() == {"python", "torch", "diffusers", "accelerate"}
    for name in ("torch", "diffusers", "accelerate"):
        assert card["versions"][name] == version(name)
    assert card["parameters"] == sum(part.numel() for part in load_file(trained / WEIGHTS).values())
    assert str(trained) not in json.dumps(card)


def test_the_card_says_what_the_data_is_called(make_split, tmp_path):
    origin = Origin("owner/name", "0" * 40)
    target = train(make_split(), replace(MICRO, steps=1), tmp_path / "a", origin=origin)
    assert json.loads((target / "card.json").read_text())["data"] == {
        "dataset": "owner/name",
        "revision": "0" * 40,
        "split": "train",
        "images": 12,
    }


def test_the_card_of_a_folded_network_without_a_null_label(make_split, tmp_path):
    training = replace(MICRO, steps=2, label_dropout=0.0, unshuffle=2)
    target = train(make_split(), training, tmp_path / "a")
    card = json.loads((target / "card.json").read_text())
    assert card["null-label"] is None
    assert card["pixel-unshuffle"] == 2
    assert card["image-shape"] == [8, 8, 1]
    config = json.loads((target / "unet/config.json").read_text())
    assert (config["num_class_embeds"], config["in_channels"]) == (3, 4)
    assert config["sample_size"] == [4, 4]


def test_pictures_are_made_at_the_cadence(make_split, tmp_path):
    target, seen = tmp_path / "a", []

    def look(step, loss, images_per_second):
        seen.append(sorted(path.name for path in workshop_of(target).glob("samples/*")))

    train(make_split(), MICRO, target, cadence=Cadence(7, 10), observe=look)
    names = [f"step-{step:07}.png" for step in (10, 20, 25)]
    assert seen == [[], names[:1], names[:2]]  # a picture is made after the report of its step
    assert sorted(path.name for path in (target / "samples").iterdir()) == names
    for name in names:
        with Image.open(target / "samples" / name) as picture:
            assert picture.format == "PNG"
            # A row for each class, eight columns of 8x8 pixels enlarged to 64, gaps of 2 around.
            assert picture.size == (8 * 66 + 2, 3 * 66 + 2)


def test_the_cadence_does_not_matter(make_split, tmp_path, uninterrupted):
    train(make_split(), MICRO, tmp_path / "a", cadence=Cadence(3, 4), observe=lambda *_: None)
    assert bits(tmp_path / "a") == bits(uninterrupted)


# --- interrupted ---


def test_an_interrupted_training_is_continued_to_the_same_bits(make_split, tmp_path, uninterrupted):
    split, target, heard = make_split(), tmp_path / "a", []
    interrupted(split, target)
    assert not target.exists()
    train(split, MICRO, target, resumed=heard.append)
    assert heard == [14]  # the last multiple of 7 before step 20
    assert bits(target) == bits(uninterrupted)
    assert (target / "samples" / "step-0000010.png").is_file()  # from before
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_interrupted_again_and_again(make_split, tmp_path, uninterrupted):
    split, target = make_split(), tmp_path / "a"
    interrupted(split, target, at=10, checkpoint=3)
    interrupted(split, target, at=20, checkpoint=4)
    train(split, MICRO, target)
    assert bits(target) == bits(uninterrupted)


def test_ctrl_c_keeps_the_step_at_hand(make_split, tmp_path, uninterrupted):
    split, target, heard = make_split(), tmp_path / "a", []

    def press(step, loss, images_per_second):
        if step == 20:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(split, MICRO, target, cadence=Cadence(7, 10), observe=press)
    assert signal.getsignal(signal.SIGINT) == before
    assert step_of(workshop_of(target)) == 20
    train(split, MICRO, target, resumed=heard.append)
    assert heard == [20]
    assert bits(target) == bits(uninterrupted)


def test_a_second_ctrl_c_does_not_wait(make_split, tmp_path):
    def press_twice(step, loss, images_per_second):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it was waited for")

    with pytest.raises(KeyboardInterrupt):
        train(make_split(), MICRO, tmp_path / "a", cadence=Cadence(7, 10), observe=press_twice)
    assert step_of(workshop_of(tmp_path / "a")) == 7


def test_a_place_that_somebody_removes_is_made_again(make_split, tmp_path, uninterrupted):
    target = tmp_path / "a"

    def remove(step, loss, images_per_second):
        if step == 10:
            shutil.rmtree(workshop_of(target))

    train(make_split(), MICRO, target, cadence=Cadence(7, 20), observe=remove)
    assert bits(target) == bits(uninterrupted)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_training_that_is_new_says_nothing_of_resuming(make_split, tmp_path):
    train(make_split(), replace(MICRO, steps=1), tmp_path / "a", resumed=pytest.fail)


def test_before_the_first_checkpoint_it_begins_anew(make_split, tmp_path, uninterrupted):
    checkpoint = interrupted(make_split(), tmp_path / "a", checkpoint=1000)
    assert not checkpoint.exists()
    train(make_split(), MICRO, tmp_path / "a", resumed=pytest.fail)
    assert bits(tmp_path / "a") == bits(uninterrupted)


def test_the_device_may_change(make_split, tmp_path, uninterrupted):
    interrupted(make_split(), tmp_path / "a")
    train(make_split(), replace(MICRO, device="auto"), tmp_path / "a")
    if not torch.cuda.is_available():
        assert bits(tmp_path / "a") == bits(uninterrupted)


@pytest.mark.parametrize(
    "change",
    [{"steps": 26}, {"batch_size": 5}, {"seed": 1}, {"label_dropout": 0.2}, {"unshuffle": 2},
     {"learning_rate": 1e-3}, {"precision": "bfloat16"}, {"preset": "tiny"}],
)  # fmt: skip
def test_a_checkpoint_of_other_options_is_refused(make_split, tmp_path, change):
    checkpoint = interrupted(make_split(), tmp_path / "a", at=10, checkpoint=5)
    before = checkpoint.read_bytes()
    with pytest.raises(UserError) as caught:
        train(make_split(), replace(MICRO, **change), tmp_path / "a")
    assert f"{tmp_path / 'a.training'} holds an unfinished training" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert checkpoint.read_bytes() == before
    assert not (tmp_path / "a").exists()


def test_a_checkpoint_of_other_data_is_refused(make_split, tmp_path):
    interrupted(make_split(), tmp_path / "a", at=10, checkpoint=5)
    with pytest.raises(UserError, match=r"a\.training holds an unfinished .* options or data"):
        train(replace(make_split(), digest="another"), MICRO, tmp_path / "a")


def _without_its_metadata(path):
    save_file(load_file(path), path)


def _without_a_tensor(path):
    from safetensors import safe_open

    with safe_open(path, "pt") as stored:
        metadata = stored.metadata()
    tensors = load_file(path)
    del tensors["unet.conv_in.weight"]
    save_file(tensors, path, metadata)


@pytest.mark.parametrize(
    "damage",
    [
        _without_a_tensor,
        lambda path: path.write_bytes(path.read_bytes()[:-100]),
        lambda path: path.write_bytes(path.read_bytes()[:50]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\x80\x04 garbage" * 99),
        lambda path: (path.unlink(), path.mkdir()),
    ],
)
def test_a_damaged_checkpoint_is_a_sentence(make_split, tmp_path, damage):
    damage(interrupted(make_split(), tmp_path / "a", at=10, checkpoint=5))
    with pytest.raises(UserError) as caught:
        train(make_split(), MICRO, tmp_path / "a")
    assert f"{tmp_path / 'a.training'}" in str(caught.value)
    assert "is damaged (" in str(caught.value)
    assert "to begin anew" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "a").exists()


def test_a_checkpoint_that_does_not_say_whose_it_is_is_refused(make_split, tmp_path):
    _without_its_metadata(interrupted(make_split(), tmp_path / "a", at=10, checkpoint=5))
    with pytest.raises(UserError, match="holds an unfinished training with other options"):
        train(make_split(), MICRO, tmp_path / "a")


def test_a_full_disk_is_a_sentence_and_the_last_checkpoint_stays(
    make_split, tmp_path, monkeypatch, uninterrupted
):
    checkpoint = interrupted(make_split(), tmp_path / "a", at=10, checkpoint=5)

    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_module, "write_bytes", full)
    with pytest.raises(UserError, match=r"a\.training cannot be written \(No space left"):
        train(make_split(), MICRO, tmp_path / "a", cadence=Cadence(5, 1000))
    assert checkpoint.exists()
    monkeypatch.setattr(checkpoint_module, "write_bytes", write_bytes)
    train(make_split(), MICRO, tmp_path / "a")
    assert bits(tmp_path / "a") == bits(uninterrupted)


def test_one_training_at_a_time_has_a_target(make_split, tmp_path, uninterrupted):
    split, target, refused = make_split(), tmp_path / "a", []

    def start_another(step, loss, images_per_second):
        with pytest.raises(UserError, match=rf"Another process is training {target}") as caught:
            train(split, MICRO, target)
        refused.append(str(caught.value))

    train(split, MICRO, target, observe=start_another)
    assert len(refused) == 3
    assert bits(target) == bits(uninterrupted)


DIGITS = replace(MICRO, preset="tiny", steps=50, batch_size=4)


def digits(cache_dir):
    from fedeas_app.data import load_split
    from fedeas_app.settings import Settings

    return load_split(Settings.parse({"dataset": "digits", "cache-dir": str(cache_dir)}), "train")


def test_a_killed_training_is_continued_to_the_same_bits(cache_dir, tmp_path):
    """A real process, stopped and killed after its first checkpoint; takes some seconds."""
    target = tmp_path / "a"
    split = digits(cache_dir)
    whole = train(split, DIGITS, tmp_path / "whole")
    options = ["--steps", "50", "--batch-size", "4", "--checkpoint-every", "5"]
    keys = ["--set", "dataset=digits", "--set", f"cache-dir={cache_dir}", "--set", "device=cpu"]
    command = [sys.executable, "-c", "from fedeas_app.commands import app; app()"]
    command += ["generator", "train", "--out", str(target), *options, *keys]
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
    try:
        wait_for(workshop_of(target) / "state.safetensors", process)
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(UserError, match="Another process is training"):
            train(split, DIGITS, target)
    finally:
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert not target.exists()
    resumed = []
    train(split, DIGITS, target, resumed=resumed.append)
    assert resumed[0] % 5 == 0
    assert bits(target) == bits(whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "whole"]


def wait_for(path, process):
    until = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.005)


# --- refused ---


def test_an_unknown_preset(make_split, tmp_path):
    with pytest.raises(UserError, match="preset is 'huge'; tiny, small, cifar"):
        train(make_split(), Training("huge", 1, 1, 0, "cpu"), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_an_existing_target_is_not_touched(make_split, tmp_path, kind):
    target = tmp_path / "a"
    target.mkdir() if kind == "directory" else target.touch()
    with pytest.raises(UserError, match="a exists already; name another directory or remove it"):
        train(make_split(), Training("micro", 1, 1, 0, "cpu"), target)
    assert target.is_dir() == (kind == "directory")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_target_that_cannot_be_written_is_told_before_training(make_split, tmp_path):
    (tmp_path / "file").touch()
    steps = []
    with pytest.raises(UserError, match="cannot be written"):
        train(
            make_split(),
            Training("micro", 2, 1, 0, "cpu"),
            tmp_path / "file" / "a",
            observe=lambda *step: steps.append(step),
        )
    assert not steps


def test_an_interrupted_training_leaves_no_target(make_split, tmp_path):
    interrupted(make_split(), tmp_path / "a", at=10, checkpoint=1000)
    assert [path.name for path in tmp_path.iterdir()] == ["a.training"]


def test_a_target_that_cannot_be_finished_is_a_sentence(make_split, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saving, "create_directory", full)
    with pytest.raises(UserError, match="cannot be written"):
        train(make_split(), replace(MICRO, steps=2), tmp_path / "a", cadence=Cadence(1, 9))
    assert (tmp_path / "a.training" / "state.safetensors").exists()


def test_a_step_that_does_not_fit_into_memory_is_a_sentence(make_split, tmp_path, monkeypatch):
    def fail(trainer):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Trainer, "advance", fail)
    with pytest.raises(UserError, match=r"6 images does not fit .* smaller --batch-size"):
        train(make_split(), MICRO, tmp_path / "a")


def test_more_images_in_a_batch_than_there_are(make_split, tmp_path):
    train(make_split(count=3), Training("micro", 2, 128, 0, "cpu"), tmp_path / "a")


def test_what_is_left_of_an_earlier_training_disappears(make_split, tmp_path, uninterrupted):
    place = workshop_of(tmp_path / "a")
    place.mkdir()
    (place / ".lock").touch()  # of a process that was killed
    shutil.copytree(uninterrupted / "samples", place / "samples")
    train(make_split(), MICRO, tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_training_that_diverges_is_a_sentence(make_split, tmp_path, monkeypatch):
    real = Trainer.advance
    monkeypatch.setattr(
        Trainer, "advance", lambda self: real(self) * (float("nan") if self.step > 12 else 1)
    )
    with pytest.raises(UserError, match=r"diverged before step 20: .* smaller --learning-rate"):
        train(make_split(), MICRO, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_loss_that_is_none_is_noticed_before_a_checkpoint(make_split, tmp_path, monkeypatch):
    real = Trainer.advance
    monkeypatch.setattr(
        Trainer, "advance", lambda self: real(self) * (float("nan") if self.step > 12 else 1)
    )
    with pytest.raises(UserError, match="diverged before step 14"):
        train(make_split(), MICRO, tmp_path / "a", cadence=Cadence(7, 1000))
    assert step_of(workshop_of(tmp_path / "a")) == 7


def test_weights_that_are_none_are_never_saved(make_split, tmp_path, monkeypatch):
    """The loss of a step is that of the weights before it."""
    real = Trainer.advance

    def spoil(trainer):
        loss = real(trainer)
        if trainer.step == 14:
            next(trainer.unet.parameters()).data.fill_(float("nan"))
        return loss

    monkeypatch.setattr(Trainer, "advance", spoil)
    with pytest.raises(UserError, match="diverged before step 14"):
        train(make_split(), MICRO, tmp_path / "a", cadence=Cadence(7, 1000))
    assert step_of(workshop_of(tmp_path / "a")) == 7


def test_a_picture_of_a_diverged_network_is_the_same_sentence(make_split, tmp_path):
    wild = replace(MICRO, learning_rate=1e30)
    with pytest.raises(UserError, match="diverged before step"):
        train(make_split(), wild, tmp_path / "a", cadence=Cadence(100, 5))


def test_a_finished_training_that_could_not_be_saved_is_saved_without_training_again(
    make_split, tmp_path, monkeypatch, uninterrupted
):
    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(saving, "create_directory", fail)
        with pytest.raises(UserError, match="No space left"):
            train(make_split(), MICRO, tmp_path / "a", cadence=Cadence(1000, 10))
    monkeypatch.setattr(Trainer, "advance", lambda self: pytest.fail("trained again"))
    train(make_split(), MICRO, tmp_path / "a")
    assert bits(tmp_path / "a") == bits(uninterrupted)


def test_safetensors_own_error_for_a_full_disk_is_a_sentence(make_split, tmp_path, monkeypatch):
    def fail(*_):
        raise SafetensorError("Error while serializing: I/O error: No space left")

    monkeypatch.setattr(saving, "create_directory", fail)
    with pytest.raises(UserError, match=r"cannot be saved in .*No space left.*repeat the command"):
        train(make_split(), MICRO, tmp_path / "a")
