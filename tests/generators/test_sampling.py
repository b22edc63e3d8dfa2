"""The walk from noise to images, against the equations of the papers in NumPy."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedeas_app.devices import repeatable
from fedeas_app.generators import sampling
from fedeas_app.generators.network import make_unet
from fedeas_app.generators.sampling import (
    NotFiniteError,
    Recipe,
    denoise,
    make_sampler,
    network_shape,
    to_pixels,
)
from fedeas_app.generators.schedulers import TooManyStepsError
from fedeas_app.generators.trainer import make_noise_scheduler

SHAPE = (2, 3, 4)
LABELS = np.array([0, 1, 1])
SEEDS = np.array([5, 6, 2**63 - 1])
NULL = 2
CONFIG = make_noise_scheduler().config


class Stub(torch.nn.Module):
    """Noise that depends on the image, the step and the label in a known way."""

    gain = np.array([0.3, 0.5, -0.2])
    shift = np.array([0.1, -0.4, 0.25])

    def __init__(self, dtype=torch.float32, bad_from=None):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1, dtype=dtype))
        self.calls = []  # the labels of each
        self.bad_from = bad_from

    def forward(self, noisy, step, class_labels):
        assert noisy.dtype == self.weight.dtype
        self.calls.append(class_labels.tolist())
        gain, shift = (torch.from_numpy(part)[class_labels] for part in (self.gain, self.shift))
        noise = gain[:, None, None, None] * noisy + shift[:, None, None, None] + step / 2000
        if self.bad_from is not None and len(self.calls) >= self.bad_from:
            noise[-1, 0, 0, 0] = torch.inf
        return SimpleNamespace(sample=noise.to(noisy.dtype))


def epsilon(x, step, labels):
    gain, shift = Stub.gain[labels], Stub.shift[labels]
    return gain[:, None, None, None] * x + shift[:, None, None, None] + step / 2000


def kept():
    """ᾱ of Nichol and Dhariwal, arXiv 2102.09672, equation 17, with β_t of at most 0.999."""
    f = np.cos((np.arange(1001) / 1000 + 0.008) / 1.008 * np.pi / 2) ** 2
    return np.cumprod(1 - np.minimum(1 - f[1:] / f[:-1], 0.999))


def normal(streams):
    return np.stack([torch.randn(SHAPE, generator=stream).numpy() for stream in streams])


def walk(sampler, steps, predict):
    """DDPM: arXiv 2006.11239, equations 7 and 15. DDIM: arXiv 2010.02502, equation 12, σ = 0."""
    streams = [torch.Generator().manual_seed(int(seed)) for seed in SEEDS]
    alpha_bar, x = kept(), normal(streams).astype(np.float64)
    for t in range((steps - 1) * (1000 // steps), -1, -(1000 // steps)):
        now = alpha_bar[t]
        before = alpha_bar[t - 1000 // steps] if t else 1.0
        noise = predict(x, t)
        clean = np.clip((x - np.sqrt(1 - now) * noise) / np.sqrt(now), -1, 1)
        if sampler == "ddim":
            x = np.sqrt(before) * clean + np.sqrt(1 - before) * noise
            continue
        alpha = now / before
        x = np.sqrt(before) * (1 - alpha) * clean + np.sqrt(alpha) * (1 - before) * x
        x /= 1 - now
        if t:
            x += np.sqrt((1 - before) / (1 - now) * (1 - alpha)) * normal(streams)
    return x


def run(recipe, network=None, labels=LABELS, seeds=SEEDS):
    network = network or Stub()
    return denoise(network, CONFIG, recipe, torch.from_numpy(labels), seeds, shape=SHAPE).numpy()


# float32 has 24 bits; a step at t = 750 divides by √ᾱ of about 0.4, and a few steps follow.
CLOSE = {"rtol": 0, "atol": 2e-5}


@pytest.mark.parametrize("sampler", ["ddim", "ddpm"])
@pytest.mark.parametrize("steps", [1, 4, 10])
def test_the_walk_is_the_papers(sampler, steps):
    expected = walk(sampler, steps, lambda x, t: epsilon(x, t, LABELS))
    assert np.abs(expected).max() > 0.2
    assert np.allclose(run(Recipe(sampler, steps)), expected, **CLOSE)


@pytest.mark.parametrize("sampler", ["ddim", "ddpm"])
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_guidance_is_the_papers(sampler, scale):
    """arXiv 2207.12598, equation 6, with s = 1 + w."""

    def predict(x, t):
        free = epsilon(x, t, np.full(3, NULL))
        return free + scale * (epsilon(x, t, LABELS) - free)

    made = run(Recipe(sampler, 4, scale, NULL))
    assert np.allclose(made, walk(sampler, 4, predict), **CLOSE)
    assert not np.allclose(made, run(Recipe(sampler, 4)), atol=0.01)


@pytest.mark.parametrize("sampler", ["ddpm", "ddim", "dpm-solver++"])
def test_without_guidance_there_is_no_second_pass(sampler):
    for null_label in (NULL, None):
        network = Stub()
        run(Recipe(sampler, 3, 1.0, null_label), network)
        assert network.calls == [LABELS.tolist()] * 3
    network = Stub()
    run(Recipe(sampler, 3, 2.0, NULL), network)
    assert network.calls == [[*LABELS.tolist(), NULL, NULL, NULL]] * 3


@pytest.mark.parametrize("sampler", ["ddpm", "ddim", "dpm-solver++"])
def test_no_image_depends_on_its_neighbours(sampler):
    together = run(Recipe(sampler, 5))
    for row in range(3):
        alone = run(Recipe(sampler, 5), labels=LABELS[row : row + 1], seeds=SEEDS[row : row + 1])
        assert np.array_equal(alone[0], together[row])


def test_the_walk_is_in_float32_whatever_the_network_is():
    made = run(Recipe("ddim", 4), Stub(torch.bfloat16))
    assert made.dtype == np.float32
    # A bfloat16 has 8 bits: noise of at most about 3 is off by at most 3/256 twice (what goes in
    # and what comes out), and √((1 - ᾱ)/ᾱ) of at most 2.4 carries it into the image, of which the
    # next step keeps at most all.
    assert np.abs(made - run(Recipe("ddim", 4))).max() < 0.06


@pytest.mark.parametrize("sampler", ["ddpm", "ddim", "dpm-solver++"])
@pytest.mark.parametrize("step", [1, 3, 4])
def test_the_first_bad_step_is_named(sampler, step):
    with pytest.raises(NotFiniteError) as caught:
        run(Recipe(sampler, 4), Stub(bad_from=step))
    assert caught.value.step == step


def test_more_steps_than_the_solver_tells_apart():
    make_sampler(CONFIG, Recipe("dpm-solver++", 20))
    with pytest.raises(TooManyStepsError):
        make_sampler(CONFIG, Recipe("dpm-solver++", 1000))


class OnMeta(torch.nn.Module):
    """A network on the device without values, where whatever looks at one fails."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1, device="meta"))

    def forward(self, noisy, step, class_labels):
        assert noisy.device == step.device == class_labels.device == self.weight.device
        return SimpleNamespace(sample=noisy / 2 + step / 2000)


@pytest.mark.parametrize("sampler", ["ddpm", "ddim", "dpm-solver++"])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_no_step_waits_for_the_device(monkeypatch, sampler, scale):
    ends = []
    monkeypatch.setattr(sampling, "_require_finite", ends.append)  # the one look, at the end
    labels = torch.zeros(3, dtype=torch.int64, device="meta")
    recipe = Recipe(sampler, 4, scale, NULL)
    sample = denoise(OnMeta(), CONFIG, recipe, labels, SEEDS, shape=SHAPE)
    assert sample.shape == (3, *SHAPE)
    assert [end.shape for end in ends] == [(5,)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_compiled_for_one_client_serves_all(dtype):
    from torch._dynamo.utils import counters

    def draw():
        """Let a client draw, its network loaded anew, and return the graphs compiled so far."""
        network = make_unet((8, 8, 1), 3, "micro").to(dtype).eval()
        network = network.to(memory_format=torch.channels_last)
        compiled = torch.compile(network, backend="eager")
        with repeatable(2):
            for recipe in (Recipe("ddim", 3), Recipe("dpm-solver++", 4)):
                denoise(compiled, CONFIG, recipe, torch.from_numpy(LABELS), SEEDS, shape=(1, 8, 8))
        return counters["stats"]["unique_graphs"]

    torch._dynamo.reset()
    before = counters["stats"]["unique_graphs"]
    first = draw()
    assert first == before + 1
    assert (draw(), draw()) == (first, first)


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        ({"sample_size": 8, "out_channels": 3}, (3, 8, 8)),
        ({"sample_size": [4, 6], "out_channels": 1}, (1, 4, 6)),
        ({"sample_size": (4, 6), "out_channels": 12}, (12, 4, 6)),
    ],
)
def test_what_a_network_sees(config, shape):
    assert network_shape(config) == shape


@pytest.mark.parametrize("config", [{}, {"sample_size": None, "out_channels": 1},
                                    {"sample_size": [1], "out_channels": 1},
                                    {"sample_size": 8, "out_channels": math.inf},
                                    {"sample_size": [8, 8.5], "out_channels": 1}])  # fmt: skip
def test_a_network_that_does_not_say_what_it_sees(config):
    with pytest.raises((KeyError, TypeError, ValueError)):
        network_shape(config)


@given(st.integers(1, 2), st.integers(1, 3), st.integers(0, 2**32))
@settings(max_examples=20)
def test_a_walks_end_becomes_pixels(channels, unshuffle, seed):
    size = 2 * unshuffle
    pixels = np.random.default_rng(seed).integers(0, 256, (2, size, size, channels), np.uint8)
    blocks = pixels.reshape(2, 2, unshuffle, 2, unshuffle, channels).transpose(0, 5, 2, 4, 1, 3)
    sample = torch.from_numpy(blocks.reshape(2, -1, 2, 2)).float() / 127.5 - 1
    assert np.array_equal(to_pixels(sample, unshuffle), pixels)


def test_what_lies_outside_the_range_is_cut_off():
    sample = torch.tensor([-7.0, -1.0, 0.0, 1.0, 7.0]).reshape(5, 1, 1, 1)
    assert to_pixels(sample, 1).ravel().tolist() == [0, 0, 128, 255, 255]
