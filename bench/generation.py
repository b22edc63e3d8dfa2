"""Images a second for a federation's plan: this application against the stock way.

The stock way is a diffusers pipeline-style loop, called for one client and one class at a time, as
a script that follows diffusers' examples would do it: same network, same scheduler, same steps,
float32, the device's default threads. Ours is what clients run: mixed-label batches, as many
workers as the simulation starts, cached as they are made. Every image has the same seed on both
sides, and the images are compared.
"""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import torch
import typer
from numpy.typing import NDArray

from fedeas_app import budget, seeds
from fedeas_app.devices import release, repeatable, resolve_device
from fedeas_app.generators import open_generator
from fedeas_app.generators.cache import Drawer
from fedeas_app.generators.ddpm import Ddpm
from fedeas_app.generators.sampling import make_sampler, network_shape
from fedeas_app.generators.schedulers import scheduler_class
from fedeas_app.settings import Settings

Plan = NDArray[np.int64]
Images = list[NDArray[np.uint8]]  # one array for each client, in order of class, then number
Map = Callable[..., Iterator[Any]]


@dataclass(frozen=True)
class Outcome:
    """What one side made of the plan, and in how many seconds."""

    images: Images
    seconds: float


def main(
    config: str = "digits",
    overrides: Annotated[list[str] | None, typer.Option("--set")] = None,
    repeats: int = 3,
    share: Annotated[float, typer.Option(help="Make this share of the plan.")] = 1.0,
) -> None:
    """Measure both sides alternately and print the ratio of their best times."""
    from fedeas_app.commands.configuration import load_settings

    settings = load_settings(Path(config), ["num-clients=20", "alpha=0.1", *(overrides or [])])
    plan = scale(plan_of(settings), share)
    print(f"{plan.sum():,} images for {len(plan)} clients, {describe(plan)}")
    with workers(settings) as spread:
        sides = {"stock": partial(stock, settings), "ours": partial(ours, spread, settings)}
        best = measure(sides, plan, repeats)
    apart = max(farthest(*pair) for pair in zip(*(o.images for o in best.values()), strict=True))
    for name, outcome in best.items():
        print(f"{name:6} {plan.sum() / outcome.seconds:8.1f} images/s")
    print(f"ratio {best['stock'].seconds / best['ours'].seconds:.2f}, pixels differ by {apart}")


def plan_of(settings: Settings) -> Plan:
    """Return what every client has to make, shape (K, C)."""
    from fedeas_app.data import counts, load_split, partition

    train = load_split(settings, "train")
    clients = int(settings.num_clients)
    parts = partition(train.labels, clients, settings)
    real = counts(train.labels, parts, len(train.class_names))
    return budget.allocate(real, "fedeas", beta=float(settings.beta))


def scale(plan: Plan, share: float) -> Plan:
    """Return a plan of the same shape with so many of its images, rounded up."""
    return np.ceil(plan * share).astype(np.int64)


def describe(plan: Plan) -> str:
    """Say how many images a class of a client has."""
    wanted = plan[plan > 0]
    return f"{len(wanted)} pairs of client and class, median {np.median(wanted):.0f} images a pair"


def measure(
    sides: dict[str, Callable[[Plan], Outcome]], plan: Plan, repeats: int
) -> dict[str, Outcome]:
    """Run the sides in turn and keep the fastest of each."""
    for side in sides.values():
        side(warm_up(plan))  # libraries are loaded, kernels chosen
    best: dict[str, Outcome] = {}
    for _ in range(repeats):
        for name, side in sides.items():
            outcome = side(plan)
            if name not in best or outcome.seconds < best[name].seconds:
                best[name] = outcome
    return best


def warm_up(plan: Plan) -> Plan:
    """Return the plan of the first clients: a tenth of all, or one client where that is more."""
    totals = plan.sum(axis=1)
    chosen = np.cumsum(totals) <= plan.sum() / 10
    chosen[np.argmax(totals > 0)] = True
    return plan * chosen[:, None]


@torch.inference_mode()
def stock(settings: Settings, plan: Plan) -> Outcome:
    """Follow diffusers' examples: one call for each client and each class it lacks."""
    from diffusers import UNet2DModel

    device = resolve_device(settings.device)
    generator = cast(Ddpm, open_generator(settings))
    begin = time.perf_counter()
    unet = UNet2DModel.from_pretrained(generator.directory / "unet").to(device).eval()
    images = []
    for client, row in enumerate(plan):
        made = [
            one_class(unet, generator, client_seed(settings, client), label, int(count), device)
            for label, count in enumerate(row)
            if count
        ]
        empty = np.empty((0, *generator.image_shape), np.uint8)
        images.append(np.concatenate([empty, *made]))
    seconds = time.perf_counter() - begin
    del unet
    release(device)
    return Outcome(images, seconds)


def one_class(
    unet: Any,
    generator: Ddpm,
    client: int,
    label: int,
    count: int,
    device: torch.device,
) -> NDArray[np.uint8]:
    """Denoise one class in one batch, as a diffusers pipeline does."""
    from diffusers.utils.torch_utils import randn_tensor

    streams = [
        torch.Generator().manual_seed(seeds.derive("image", client, label, index))
        for index in range(count)
    ]
    scheduler = stock_scheduler(generator)
    shape = (count, *network_shape(unet.config))
    image = randn_tensor(shape, generator=streams, device=device) * scheduler.init_noise_sigma
    labels = torch.full((count,), label, device=device)
    for step in scheduler.timesteps:
        output = unet(image, step, class_labels=labels).sample
        image = scheduler.step(output, step, image, generator=streams).prev_sample
    image = torch.nn.functional.pixel_shuffle(image, generator.card.unshuffle)
    pixels = ((image / 2 + 0.5).clamp(0, 1) * 255).round().to(torch.uint8)
    return pixels.permute(0, 2, 3, 1).cpu().numpy()


def stock_scheduler(generator: Ddpm) -> Any:
    """Return diffusers' own scheduler with the options of ours, which leaves out a sort."""
    recipe = generator.recipe
    ours = make_sampler(generator.scheduler_config, recipe)
    scheduler = scheduler_class(recipe.sampler).from_config(ours.config)
    scheduler.set_timesteps(recipe.steps)
    return scheduler


@contextmanager
def workers(settings: Settings) -> Iterator[Map]:
    """Yield a `map` over the processes that a simulation would start; on a GPU over this one."""
    if resolve_device(settings.device).type != "cpu":
        yield map
        return
    count = max(1, len(os.sched_getaffinity(0)) // settings.threads)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, spawn) as pool:
        yield pool.map


def ours(spread: Map, settings: Settings, plan: Plan) -> Outcome:
    """Let the workers make every client's images as a run does, into a cache of their own."""
    with tempfile.TemporaryDirectory() as cache:
        begin = time.perf_counter()
        images = list(spread(partial(one_client, settings, Path(cache)), enumerate(plan)))
        return Outcome(images, time.perf_counter() - begin)


def one_client(
    settings: Settings, cache: Path, place: tuple[int, NDArray[np.int64]]
) -> NDArray[np.uint8]:
    """Make one client's images."""
    client, need = place
    with repeatable(settings.threads):
        drawer = Drawer(cache, open_generator(settings), client_seed(settings, client))
        return drawer.fetch(need)[0]


def client_seed(settings: Settings, client: int) -> int:
    """Return the seed of a client's images, as the client derives it."""
    return seeds.derive("client", settings.seed, client)


def farthest(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> int:
    """Return the largest difference of two clients' pixels."""
    return int(np.abs(one.astype(int) - other.astype(int)).max(initial=0))


if __name__ == "__main__":
    typer.run(main)
