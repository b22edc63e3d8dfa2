"""Training a class-conditional DDPM on a labelled image set.

Ho et al., "Denoising Diffusion Probabilistic Models", arXiv 2006.11239, Algorithm 1: a random
step t, noise ε, and the network learns ε from the noisy image, t and the label.
"""

import json
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from fedeas_app import seeds
from fedeas_app.data import Split
from fedeas_app.devices import resolve_device
from fedeas_app.errors import UserError
from fedeas_app.files import create_directory, make_directory

OnStep = Callable[[int, float], None]


@dataclass(frozen=True)
class Preset:
    """The shape of a network: how much it costs and what it can draw."""

    block_out_channels: tuple[int, ...]
    layers_per_block: int
    attention_levels: tuple[int, ...]
    norm_num_groups: int
    learning_rate: float


PRESETS = {
    "tiny": Preset((32, 64), 1, (1,), 8, 2e-3),  # 8x8 pixels, CPU minutes
    "small": Preset((32, 64, 128), 2, (2,), 8, 1e-3),  # 28x28 pixels, a CPU hour
    "cifar": Preset((128, 256, 256, 256), 2, (1,), 32, 2e-4),  # the network of the DDPM paper
}


@dataclass(frozen=True)
class Training:
    """How long and how to train."""

    preset: str = "tiny"
    steps: int = 3000
    batch_size: int = 128
    seed: int = 0
    device: str = "auto"


def train(split: Split, training: Training, target: Path, on_step: OnStep | None = None) -> Path:
    """Train a generator and save it in diffusers' layout with a card.

    Parameters
    ----------
    split : Split
        The images to learn; never the test set.
    training : Training
    target : Path
        A directory that does not exist yet.
    on_step : callable, optional
        Called with the number of finished steps and the loss.

    Returns
    -------
    Path
        ``target``.

    Raises
    ------
    UserError
        The preset does not fit the images, or the target exists.
    """
    require_new(target)
    scheduler = make_noise_scheduler()
    with seeds.global_torch_seed("generator", training.seed):
        unet = make_unet(split, training.preset)
    average = _fit(unet, scheduler, split, training, on_step)
    average.copy_to(unet.parameters())

    def fill(directory: Path) -> None:
        unet.save_pretrained(directory / "unet", safe_serialization=True)
        scheduler.save_pretrained(directory / "scheduler")
        (directory / "card.json").write_text(json.dumps(_card(split, training), indent=2) + "\n")

    return create_directory(target, fill)


def require_new(target: Path) -> None:
    """Refuse a directory that exists or cannot be made: now, and not after hours of training."""
    if target.exists():
        raise UserError(f"{target} exists already; name another directory or remove it.")
    make_directory(target.parent)


def make_noise_scheduler() -> Any:
    """Return the forward process: 1,000 steps, cosine schedule (Nichol and Dhariwal 2102.09672)."""
    from diffusers import DDPMScheduler

    return DDPMScheduler(num_train_timesteps=1000, beta_schedule="squaredcos_cap_v2")


def make_unet(split: Split, preset: str) -> Any:
    """Return an untrained UNet with one class embedding for each class of the dataset."""
    from diffusers import UNet2DModel

    _, height, width, channels = split.images.shape
    if preset not in PRESETS:
        raise UserError(f"preset is {preset!r}; {', '.join(PRESETS)} are allowed.")
    shape = PRESETS[preset]
    levels = len(shape.block_out_channels)
    if height % 2 ** (levels - 1) or width % 2 ** (levels - 1):
        raise UserError(
            f"The preset {preset!r} halves images {levels - 1} times, which {width}x{height} "
            f"pixels do not allow; set image-size to a multiple of {2 ** (levels - 1)} or use "
            f"another preset ({', '.join(PRESETS)})."
        )
    attends = [level in shape.attention_levels for level in range(levels)]
    return UNet2DModel(
        sample_size=(height, width),
        in_channels=channels,
        out_channels=channels,
        block_out_channels=shape.block_out_channels,
        layers_per_block=shape.layers_per_block,
        down_block_types=tuple("AttnDownBlock2D" if a else "DownBlock2D" for a in attends),
        up_block_types=tuple("AttnUpBlock2D" if a else "UpBlock2D" for a in reversed(attends)),
        norm_num_groups=shape.norm_num_groups,
        attention_head_dim=shape.block_out_channels[0],
        num_class_embeds=len(split.class_names),
    )


def _fit(
    unet: Any, scheduler: Any, split: Split, training: Training, on_step: OnStep | None
) -> Any:
    """Train the network in place and return the exponential mean of its weights."""
    from accelerate import Accelerator
    from diffusers.optimization import get_cosine_schedule_with_warmup
    from diffusers.training_utils import EMAModel

    device = resolve_device(training.device)
    accelerator = Accelerator(cpu=device.type == "cpu")
    optimizer = torch.optim.AdamW(unet.parameters(), lr=PRESETS[training.preset].learning_rate)
    rate = get_cosine_schedule_with_warmup(optimizer, training.steps // 50, training.steps)
    unet, optimizer = accelerator.prepare(unet, optimizer)
    average = EMAModel(unet.parameters(), decay=0.999, use_ema_warmup=True, power=0.75)
    noise_stream = seeds.torch_rng("generator-noise", training.seed)
    for step, (images, labels) in enumerate(_batches(split, training), start=1):
        noise = torch.randn(images.shape, generator=noise_stream)
        times = torch.randint(
            scheduler.config.num_train_timesteps, (len(images),), generator=noise_stream
        )
        noisy = scheduler.add_noise(images, noise, times)
        where = accelerator.device
        guess = unet(noisy.to(where), times.to(where), class_labels=labels.to(where)).sample
        loss = functional.mse_loss(guess, noise.to(where))
        optimizer.zero_grad()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        rate.step()
        average.step(unet.parameters())
        if on_step is not None:
            on_step(step, loss.item())
    return average


def _batches(split: Split, training: Training) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield random batches, images scaled to [-1, 1], for the given number of steps."""
    rng = seeds.numpy_rng("generator-batches", training.seed)
    size = min(training.batch_size, len(split.labels))
    for _ in range(training.steps):
        chosen = np.sort(rng.choice(len(split.labels), size, replace=False))
        pixels = torch.from_numpy(np.ascontiguousarray(split.images[chosen]))
        yield pixels.permute(0, 3, 1, 2) / 127.5 - 1, torch.from_numpy(split.labels[chosen])


def _card(split: Split, training: Training) -> dict[str, Any]:
    return {
        "kind": "class-conditional DDPM",
        "classes": list(split.class_names),
        "image-shape": list(split.images.shape[1:]),
        "normalisation": "pixels / 127.5 - 1",
        "data-digest": split.digest,
        "training": asdict(training),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "diffusers", "accelerate")},
        },
    }
