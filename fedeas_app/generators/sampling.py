"""From noise to images: the sampling loop over a class-conditional network and a scheduler.

Ho et al., "Denoising Diffusion Probabilistic Models", arXiv 2006.11239, Algorithm 2, or with fewer
steps Song et al., "Denoising Diffusion Implicit Models", arXiv 2010.02502, or Lu et al.,
"DPM-Solver++", arXiv 2211.01095. The schedulers are diffusers'; the loop is ours, because diffusers
has no pipeline for a UNet with class embeddings and because every image has a seed of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedeas_app.files import file_sha256_once
from fedeas_app.generators.network import unfold
from fedeas_app.generators.saving import library_versions
from fedeas_app.generators.scheduler_memo import Description, remembered
from fedeas_app.generators.schedulers import (
    describe_scheduler,
    scheduler_class,
    set_steps,
    solver_options,
)

Predict = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # of a noisy batch and a step

DEFAULT_STEPS = {"ddpm": 1000, "ddim": 50, "dpm-solver++": 20}

_CODE = ("sampling.py", "schedulers.py", "pixel_solver.py")  # what makes a scheduler


class NotFiniteError(Exception):
    """A value was NaN or infinite after so many denoising steps."""

    def __init__(self, step: int) -> None:
        super().__init__(f"not finite at step {step}")
        self.step = step


@dataclass(frozen=True)
class Recipe:
    """How images are drawn.

    Attributes
    ----------
    sampler : {"ddpm", "ddim", "dpm-solver++"}
    steps : int
        Denoising steps.
    guidance : float
        s of ε = ε(∅) + s·(ε(c) − ε(∅)) (Ho and Salimans, arXiv 2207.12598, there 1 + w); 1 needs
        no second pass.
    null_label : int, optional
        ∅: the label that the network was trained on in the place of dropped ones.
    """

    sampler: str
    steps: int
    guidance: float = 1.0
    null_label: int | None = None


def make_sampler(config: Mapping[str, Any], recipe: Recipe) -> Any:
    """Return diffusers' scheduler for a recipe, its steps set.

    Parameters
    ----------
    config : mapping
        The configuration of the scheduler that the network was trained with.
    recipe : Recipe

    Raises
    ------
    TooManyStepsError
        The solver cannot tell so many steps apart.
    """
    if recipe.sampler == "dpm-solver++":
        from fedeas_app.generators.pixel_solver import PixelSolver

        scheduler: Any = PixelSolver.from_config(
            config, thresholding=True, **solver_options(config)
        )
    else:
        scheduler = scheduler_class(recipe.sampler).from_config(config)
    set_steps(scheduler, recipe.steps)
    return scheduler


def describe_sampler(
    config: Mapping[str, Any], recipe: Recipe, cache_path: Path | None = None
) -> Description:
    """Return the class and the configuration of a recipe's scheduler, which can be made.

    Parameters
    ----------
    config, recipe
        As for :func:`make_sampler`; raises likewise.
    cache_path : Path, optional
        The cache directory. What is known there of the same code and libraries needs no diffusers.
    """

    def describe() -> Description:
        return describe_scheduler(make_sampler(config, recipe))

    if cache_path is None:
        return describe()
    return remembered(cache_path, _origin(config, recipe), describe)


def _origin(config: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Return all that decides what a scheduler is, and whether it can be made."""
    return {
        "config": config,
        "sampler": recipe.sampler,
        "steps": recipe.steps,
        "options": solver_options(config),
        "code": [file_sha256_once(Path(__file__).with_name(name)) for name in _CODE],
        "libraries": _libraries(),
    }


@cache
def _libraries() -> dict[str, str]:
    return library_versions("diffusers", "torch", "numpy", "scipy")


@torch.inference_mode()
def denoise(
    network: torch.nn.Module,
    config: Mapping[str, Any],
    recipe: Recipe,
    labels: torch.Tensor,
    seeds: NDArray[np.int64],
    *,
    shape: tuple[int, int, int],
) -> torch.Tensor:
    """Walk one batch from noise to images in [-1, 1].

    Parameters
    ----------
    network : Module
        The UNet, in any precision; the walk itself is in float32.
    config : mapping
        The configuration of the scheduler that it was trained with.
    recipe : Recipe
    labels : tensor of int64, shape (n,)
        On the network's device.
    seeds : array of int, shape (n,)
        One random stream per image, read at every step: no image depends on its neighbours.
    shape : tuple of int
        (channels, height, width) of what the network sees.

    Returns
    -------
    tensor of float32, shape (n, *shape)

    Raises
    ------
    NotFiniteError
        Names the first bad step.
    """
    streams = [torch.Generator().manual_seed(int(seed)) for seed in seeds]
    noise = _draw(streams, shape, labels.device)
    return _walk(make_sampler(config, recipe), _predictor(network, recipe, labels), noise, streams)


def network_shape(config: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return (channels, height, width) of what a UNet of this configuration sees.

    Raises
    ------
    KeyError, TypeError, ValueError
        It does not say.
    """
    size = config["sample_size"]
    height, width = (size, size) if isinstance(size, int) else size
    return index(config["out_channels"]), index(height), index(width)


def to_pixels(sample: torch.Tensor, unshuffle: int) -> NDArray[np.uint8]:
    """Turn a walk's end into images, shape (n, height, width, channels)."""
    images = unfold(sample, unshuffle)
    pixels = ((images.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)
    return pixels.permute(0, 2, 3, 1).cpu().numpy()


def _draw(
    streams: list[torch.Generator], shape: tuple[int, int, int], device: torch.device
) -> torch.Tensor:
    from diffusers.utils.torch_utils import randn_tensor

    noise: torch.Tensor = randn_tensor((len(streams), *shape), generator=streams, device=device)
    return noise


def _walk(
    scheduler: Any, predict: Predict, noise: torch.Tensor, streams: list[torch.Generator]
) -> torch.Tensor:
    """Take all steps from noise of unit variance; see :func:`denoise`.

    The scheduler looks at each step's number and so gets it on the CPU. The network gets it on its
    own device, where all were brought at once: a copy in every step would make a GPU wait.
    """
    sample: torch.Tensor = noise * scheduler.init_noise_sigma
    finite, steps = [], scheduler.timesteps
    for step, seen in zip(steps, steps.to(sample.device), strict=True):
        guess = predict(scheduler.scale_model_input(sample, step), seen).float()
        # Looked at in every step: a scheduler that clips makes a black pixel of infinity.
        finite.append(torch.isfinite(guess).all())
        sample = scheduler.step(guess, step, sample, generator=streams).prev_sample
    finite.append(torch.isfinite(sample).all())
    _require_finite(torch.stack(finite))
    return sample


def _predictor(network: torch.nn.Module, recipe: Recipe, labels: torch.Tensor) -> Predict:
    """Return the function from a noisy batch and a step to its noise, guided where asked."""
    dtype = next(network.parameters()).dtype

    def plain(noisy: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        noise: torch.Tensor = network(noisy.to(dtype), step, class_labels=labels).sample
        return noise

    if recipe.guidance == 1 or recipe.null_label is None:
        return plain
    both = torch.cat([labels, torch.full_like(labels, recipe.null_label)])

    def guided(noisy: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        twice = noisy.to(dtype).repeat(2, 1, 1, 1)
        noise: torch.Tensor = network(twice, step, class_labels=both).sample
        conditional, free = noise.float().chunk(2)
        return free + recipe.guidance * (conditional - free)

    return guided


def _require_finite(finite: torch.Tensor) -> None:
    """Raise for the first False; one look at the end, because a look makes a GPU wait."""
    bad = (~finite).nonzero()
    if len(bad):
        raise NotFiniteError(min(int(bad[0]) + 1, len(finite) - 1))
