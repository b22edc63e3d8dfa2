"""Training a generator: repeatable, documented, and refused before time is lost."""

import json
from dataclasses import asdict
from importlib.metadata import version

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from fedeas_app.errors import UserError
from fedeas_app.generators.training import (
    PRESETS,
    Training,
    make_noise_scheduler,
    make_unet,
    train,
)

WEIGHTS = "unet/diffusion_pytorch_model.safetensors"


def test_one_seed_gives_the_same_bits(make_split, tmp_path):
    split = make_split()
    for name, seed in [("a", 0), ("b", 0), ("c", 1)]:
        torch.manual_seed(len(name) + seed)  # the global stream must not matter
        train(split, Training("micro", 4, 6, seed, "cpu"), tmp_path / name)
    first, again, other = ((tmp_path / name / WEIGHTS).read_bytes() for name in "abc")
    assert first == again
    assert first != other


def test_the_weights_learn(make_split, tmp_path):
    split, losses = make_split(), []
    target = train(
        split,
        Training("micro", 60, 12, 0, "cpu"),
        tmp_path / "a",
        lambda step, loss: losses.append((step, loss)),
    )
    assert [step for step, _ in losses] == list(range(1, 61))
    loss = np.array([loss for _, loss in losses])
    assert np.isfinite(loss).all()
    assert loss[-15:].mean() < 0.9 * loss[:5].mean()
    assert all(torch.isfinite(tensor).all() for tensor in load_file(target / WEIGHTS).values())


def test_the_layout_is_diffusers_own(trained):
    from diffusers import DDPMScheduler, UNet2DModel

    files = {str(path.relative_to(trained)) for path in trained.rglob("*") if path.is_file()}
    assert files == {
        "card.json",
        "scheduler/scheduler_config.json",
        "unet/config.json",
        WEIGHTS,
    }
    unet = UNet2DModel.from_pretrained(trained / "unet", use_safetensors=True)
    assert unet.config.num_class_embeds == 3
    assert tuple(unet.config.sample_size) == (8, 8)
    scheduler = DDPMScheduler.from_pretrained(trained / "scheduler")
    assert scheduler.config.num_train_timesteps == 1000
    assert scheduler.config.beta_schedule == "squaredcos_cap_v2"


def test_the_card_says_where_it_comes_from(trained):
    card = json.loads((trained / "card.json").read_text())
    assert card["classes"] == ["class 0", "class 1", "class 2"]
    assert card["image-shape"] == [8, 8, 1]
    assert card["data-digest"] == "some-digest"
    assert card["training"] == asdict(Training("micro", 50, 6, 0, "cpu"))
    assert card["versions"]["torch"] == version("torch")
    assert card["versions"]["diffusers"] == version("diffusers")
    assert str(trained) not in json.dumps(card)


def test_an_unknown_preset(make_split, tmp_path):
    with pytest.raises(UserError, match="preset is 'huge'; tiny, small, cifar"):
        train(make_split(), Training("huge", 1, 1, 0, "cpu"), tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("preset", "shape", "multiple"),
    [("tiny", (9, 8, 1), 2), ("small", (30, 28, 1), 4), ("cifar", (28, 28, 3), 8)],
)
def test_a_size_that_cannot_be_halved(make_split, preset, shape, multiple):
    with pytest.raises(UserError) as caught:
        make_unet(make_split(shape=shape), preset)
    assert repr(preset) in str(caught.value)
    assert f"{shape[1]}x{shape[0]} pixels" in str(caught.value)
    assert f"multiple of {multiple}" in str(caught.value)


@pytest.mark.parametrize(
    ("preset", "shape"), [("tiny", (8, 8, 1)), ("small", (28, 28, 1)), ("micro", (8, 6, 3))]
)
def test_a_network_takes_the_images_it_is_for(make_split, preset, shape):
    unet = make_unet(make_split(shape=shape), preset).eval()
    height, width, channels = shape
    images = torch.zeros(2, channels, height, width)
    with torch.inference_mode():
        out = unet(images, 5, class_labels=torch.tensor([0, 2])).sample
    assert out.shape == images.shape


def test_the_presets_for_users_are_documented_sizes():
    assert set(PRESETS) == {"tiny", "small", "cifar", "micro"}  # micro: these tests' own


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_an_existing_target_is_not_touched(make_split, tmp_path, kind):
    target = tmp_path / "a"
    target.mkdir() if kind == "directory" else target.touch()
    with pytest.raises(UserError, match="a exists already; name another directory or remove it"):
        train(make_split(), Training("micro", 1, 1, 0, "cpu"), target)
    assert target.is_dir() == (kind == "directory")


def test_a_target_that_cannot_be_written_is_told_before_training(make_split, tmp_path):
    (tmp_path / "file").touch()
    steps = []
    with pytest.raises(UserError, match="cannot be written"):
        train(
            make_split(),
            Training("micro", 2, 1, 0, "cpu"),
            tmp_path / "file" / "a",
            lambda *step: steps.append(step),
        )
    assert not steps


def test_an_interrupted_training_leaves_no_target(make_split, tmp_path):
    def stop(step, loss):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(make_split(), Training("micro", 2, 1, 0, "cpu"), tmp_path / "a", stop)
    assert list(tmp_path.iterdir()) == []


def test_more_images_in_a_batch_than_there_are(make_split, tmp_path):
    train(make_split(count=3), Training("micro", 2, 128, 0, "cpu"), tmp_path / "a")


def test_the_forward_process_ends_in_noise():
    scheduler = make_noise_scheduler()
    kept = scheduler.alphas_cumprod
    # Nichol and Dhariwal, equation 17: ᾱ_t = f(t) / f(0), f(t) = cos²((t/T + s) / (1 + s) · π/2).
    t = np.arange(1, 991) / 1000
    f = np.cos((np.concatenate([[0], t]) + 0.008) / 1.008 * np.pi / 2) ** 2
    assert np.allclose(kept[:990], f[1:] / f[0], atol=1e-4)
    assert kept[-1] < 1e-6
