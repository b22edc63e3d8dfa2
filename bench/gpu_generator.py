"""One script for a CUDA GPU, under eight minutes: what the generator does there, and its limit.

1. A plan of 20 clients at α = 0.1 over 50,000 labels, made the stock way and ours (see
   `generation.py`), with the CIFAR network of the DDPM paper. Its weights are random: speed does
   not depend on them.
2. DPM-Solver++ with 20 steps against DDPM with 1,000, images a second.
3. How far from the limit: FLOPs per image × images per second over the rate of a large matrix
   product measured on the same card in the same precision.
"""

import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
import typer
from generation import Plan, describe, farthest, measure, ours, scale, stock
from torch.utils.flop_counter import FlopCounterMode

from fedeas_app import budget
from fedeas_app.data import counts, partition
from fedeas_app.devices import release, resolve_device
from fedeas_app.generators import open_generator
from fedeas_app.generators.network import make_unet
from fedeas_app.generators.sampling import network_shape
from fedeas_app.generators.trainer import make_noise_scheduler, resolve_precision
from fedeas_app.settings import Settings


def main(
    device: str = "cuda",
    preset: str = "cifar",
    share: float = 0.25,
    repeats: int = 2,
    ddpm_images: int = 256,
) -> None:
    """Run all three parts and print what came out."""
    with tempfile.TemporaryDirectory() as place:
        settings = configure(Path(place), device, preset)
        compare(settings, share, repeats)
        speed = compare_samplers(settings, ddpm_images)
        show_limit(settings, speed)


def configure(place: Path, device: str, preset: str) -> Settings:
    """Make a generator directory with random weights, and the settings that use it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        make_unet((32, 32, 3), 10, preset).save_pretrained(place / "generator" / "unet")
    make_noise_scheduler().save_pretrained(place / "generator" / "scheduler")
    return Settings.parse(
        {
            "num-clients": 20,
            "alpha": 0.1,
            "device": device,
            "generator": str(place / "generator"),
            "cache-dir": str(place / "cache"),
        }
    )


def compare(settings: Settings, share: float, repeats: int) -> None:
    """Part 1: the plan, the stock way and ours; in float32 to compare pixels, then as it runs."""
    labels = np.repeat(np.arange(10), 5000)
    parts = partition(labels, int(settings.num_clients), settings)
    plan: Plan = scale(budget.allocate(counts(labels, parts, 10), "fedeas", beta=12.0), share)
    print(f"{plan.sum():,} images for {len(plan)} clients, {describe(plan)}", flush=True)
    exact = settings.model_copy(update={"generation_precision": "float32"})
    best = measure(
        {
            "stock": partial(stock, settings),
            "ours float32": partial(ours, map, exact),
            "ours": partial(ours, map, settings),
        },
        plan,
        repeats,
    )
    pairs = zip(best["stock"].images, best["ours float32"].images, strict=True)
    for name, outcome in best.items():
        ratio = best["stock"].seconds / outcome.seconds
        print(f"{name:12} {plan.sum() / outcome.seconds:9.1f} images/s, ratio {ratio:.2f}")
    print(f"float32 pixels differ by at most {max(farthest(*pair) for pair in pairs)}", flush=True)


def compare_samplers(settings: Settings, ddpm_images: int) -> float:
    """Part 2: return DPM-Solver++'s images a second."""
    fast = rate(settings, "dpm-solver++", 20, 8 * ddpm_images)
    slow = rate(settings, "ddpm", 1000, ddpm_images)
    print(f"dpm-solver++ 20 {fast:.1f}, ddpm 1000 {slow:.2f} images/s, ratio {fast / slow:.1f}")
    return fast


def rate(settings: Settings, sampler: str, steps: int, count: int) -> float:
    """Return images a second, after a warm-up that compiles."""
    own = settings.model_copy(update={"sampler": sampler, "sampler_steps": steps})
    labels, seeds = np.arange(count) % 10, np.arange(count)
    generator = open_generator(own)
    marks: list[float] = []
    generator.generate(labels, seeds, lambda rows, images: marks.append(time.perf_counter()))
    if len(marks) < 2:  # one batch, its compilation included
        begin = time.perf_counter()
        generator.generate(labels, seeds)
        return count / (time.perf_counter() - begin)
    return (count - count / len(marks)) / (marks[-1] - marks[0])


@torch.inference_mode()
def show_limit(settings: Settings, images_per_second: float) -> None:
    """Part 3: the share of the card's matrix product rate that sampling reaches."""
    device = resolve_device(settings.device)
    dtype = getattr(torch, resolve_precision("auto", device))
    flops = 20 * flops_of_a_pass(settings, device)
    matmul = matmul_rate(device, dtype)
    print(f"{flops / 1e9:.1f} GFLOP an image, {dtype} matmul {matmul / 1e12:.1f} TFLOP/s")
    print(f"sampling reaches {images_per_second * flops / matmul:.1%} of it")


def flops_of_a_pass(settings: Settings, device: torch.device) -> float:
    """Return the floating-point operations of the network for one image."""
    from diffusers import UNet2DModel

    unet = UNet2DModel.from_pretrained(Path(settings.generator) / "unet").to(device)
    noisy = torch.zeros((1, *network_shape(unet.config)), device=device)
    with FlopCounterMode(display=False) as counter:
        unet(noisy, 0, class_labels=torch.zeros(1, dtype=torch.int64, device=device))
    del unet
    release(device)
    return float(counter.get_total_flops())


def matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Return FLOP/s of a square matrix product, the best of ten."""
    size = 8192 if device.type == "cuda" else 1024
    one, other = torch.randn((2, size, size), device=device, dtype=dtype)
    fastest = min(seconds_of(one, other, device) for _ in range(10))
    return float(2 * size**3 / fastest)


def seconds_of(one: torch.Tensor, other: torch.Tensor, device: torch.device) -> float:
    """Time one product, the device's queue empty before and after."""
    wait(device)
    begin = time.perf_counter()
    one @ other
    wait(device)
    return time.perf_counter() - begin


def wait(device: torch.device) -> None:
    """Wait until the device has done all it was asked to."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    typer.run(main)
