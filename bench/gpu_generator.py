"""One script for a CUDA GPU, under eight minutes: what the generator does there, and its limit.

The network is the CIFAR one of the DDPM paper. Its weights are random: speed does not depend on
them. Every outcome is printed as soon as it is known, in this order; when the budget of time is
used up, what is left is named and left out.

1. The limit: the rate of a large matrix product, and the FLOPs of the network for one image.
2. A plan of 20 clients at α = 0.1 over 50,000 labels, made as clients make it.
3. The same plan the stock way (see `generation.py`).
4. DPM-Solver++ with 20 steps and DDPM with 1,000, on one full batch.
5. The plan once more as clients make it, in float32, to compare its pixels with the stock way's.

Where the application is not installed, ``PYTHONPATH=.`` makes it known. A minute on a CPU shows
that it runs:

    python bench/gpu_generator.py --device cpu --preset tiny --clients 2 --share 0.002 --batch 2
"""

import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import typer
from generation import Outcome, Plan, describe, farthest, ours, scale, stock, warm_up
from torch.utils.flop_counter import FlopCounterMode

from fedeas_app.budget import allocate
from fedeas_app.devices import compile_for, on_device, repeatable, resolve_device, resolve_precision
from fedeas_app.generators.network import make_unet
from fedeas_app.generators.sampling import Recipe, denoise, network_shape
from fedeas_app.generators.trainer import make_noise_scheduler
from fedeas_app.settings import Settings

STEPS = 20  # of DPM-Solver++
IMAGE = (32, 32, 3)
CLASSES = 10


def main(
    device: str = "cuda",
    preset: str = "cifar",
    clients: int = 20,
    share: float = 0.25,
    repeats: int = 2,
    batch: int = 256,
    budget: float = 420.0,
) -> None:
    """Run all parts, or as many as there is time for, and print what came out."""
    plan = scale(draw_plan(clients), share)
    say(f"{plan.sum():,} images for {clients} clients, {describe(plan)}")
    with tempfile.TemporaryDirectory() as place:
        settings = configure(Path(place), device, preset, clients)
        failed = Bench(settings, plan, repeats, batch, time.perf_counter() + budget).run()
    raise typer.Exit(int(failed))


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def draw_plan(clients: int, per_class: int = 5000, alpha: float = 0.1) -> Plan:
    """Return what FedEAS lets every client make, its real labels drawn by Dirichlet's law."""
    shares = np.random.default_rng(0).dirichlet(np.full(clients, alpha), CLASSES)
    edges = np.round(np.cumsum(shares, axis=1) * per_class).astype(np.int64)
    return allocate(np.diff(edges, axis=1, prepend=0).T, "fedeas", beta=12.0)


def configure(place: Path, device: str, preset: str, clients: int) -> Settings:
    """Make a generator directory with random weights, and the settings that use it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        make_unet(IMAGE, CLASSES, preset).save_pretrained(place / "generator" / "unet")
    make_noise_scheduler().save_pretrained(place / "generator" / "scheduler")
    return Settings.parse(
        {
            "num-clients": clients,
            "device": device,
            "sampler": "dpm-solver++",
            "sampler-steps": STEPS,
            "generator": str(place / "generator"),
            "cache-dir": str(place / "cache"),
        }
    )


class Bench:
    """The parts, what they share, and when the time is up (on ``time.perf_counter``)."""

    def __init__(
        self, settings: Settings, plan: Plan, repeats: int, batch: int, end: float
    ) -> None:
        self.settings = settings
        self.plan = plan
        self.repeats = repeats
        self.batch = batch
        self.end = end
        self.device = resolve_device(settings.device)
        self.dtype = getattr(torch, resolve_precision("auto", self.device))
        self.flops = self.matmul = float("nan")
        self.speeds: dict[str, float] = {}
        self.made_by_stock: Outcome | None = None

    def run(self) -> bool:
        """Run the parts in order; return whether one failed, which does not stop the others."""
        failed = False
        for part in (self.limit, self.ours, self.stock_way, self.samplers, self.exact):
            if time.perf_counter() > self.end:
                say(f"[{part.__name__}] skipped: the budget of time is used up")
                continue
            begin = time.perf_counter()
            try:
                part()
            except Exception:
                traceback.print_exc()
                failed = True
            say(f"[{part.__name__}] took {time.perf_counter() - begin:.0f} s")
        return failed

    def limit(self) -> None:
        """Part 1."""
        card = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "a CPU"
        say(f"{card}, torch {torch.__version__}")
        self.matmul = matmul_rate(self.device, self.dtype)
        say(f"{self.dtype} matrix product: {self.matmul / 1e12:.2f} TFLOP/s")
        self.flops = STEPS * flops_of_a_pass(self.settings, self.device)
        say(f"an image of {STEPS} steps: {self.flops / 1e9:.1f} GFLOP")

    def ours(self) -> None:
        """Part 2."""
        self.fastest("ours", partial(ours, map, self.settings), self.repeats)

    def stock_way(self) -> None:
        """Part 3."""
        self.made_by_stock = self.fastest("stock", partial(stock, self.settings), self.repeats)
        say(f"ours against stock: {self.speeds['ours'] / self.speeds['stock']:.2f} times as fast")

    def samplers(self) -> None:
        """Part 4."""
        fast = self.rate(Recipe("dpm-solver++", STEPS), times=4)
        slow = self.rate(Recipe("ddpm", 1000), times=1)
        say(f"dpm-solver++ against ddpm: {fast / slow:.1f} times as fast")

    def exact(self) -> None:
        """Part 5."""
        settings = self.settings.model_copy(update={"generation_precision": "float32"})
        outcome = self.fastest("ours float32", partial(ours, map, settings), 1)
        if self.made_by_stock is not None:
            pairs = zip(self.made_by_stock.images, outcome.images, strict=True)
            say(f"pixels differ from stock by at most {max(farthest(*pair) for pair in pairs)}")

    def fastest(self, name: str, side: Callable[[Plan], Outcome], repeats: int) -> Outcome:
        """Run one side after a warm-up, again while there is time, and tell its best."""
        seconds = side(warm_up(self.plan)).seconds
        say(f"{name}: warm-up, compilation included where there is one, {seconds:.1f} s")
        best = side(self.plan)
        for _ in range(repeats - 1):
            if time.perf_counter() < self.end:
                best = min(best, side(self.plan), key=lambda outcome: outcome.seconds)
        self.speeds[name] = self.plan.sum() / best.seconds
        self.tell(f"{name}: {best.seconds:.1f} s", self.speeds[name])
        return best

    def rate(self, recipe: Recipe, times: int) -> float:
        """Return images a second of full batches, the network loaded and compiled before."""
        network = self.load()
        with repeatable(self.settings.threads):
            self.draw(network, Recipe(recipe.sampler, 2))
            begin = time.perf_counter()
            for _ in range(times):
                self.draw(network, recipe)
            speed = times * self.batch / (time.perf_counter() - begin)
        name = f"{recipe.sampler} {recipe.steps}, batches of {self.batch}"
        self.tell(name, speed, recipe.steps / STEPS)
        return speed

    def draw(self, network: torch.nn.Module, recipe: Recipe) -> None:
        """Draw one full batch; it ends with a look at the values, so the device is done."""
        labels = torch.arange(self.batch, device=self.device) % CLASSES
        config = make_noise_scheduler().config
        shape = (IMAGE[2], *IMAGE[:2])
        denoise(network, config, recipe, labels, np.arange(self.batch), shape=shape)

    def load(self) -> torch.nn.Module:
        """Return the network as clients run it."""
        network = on_device(load_unet(self.settings, self.dtype), self.device)
        return compile_for(self.device, network)

    def tell(self, name: str, speed: float, passes: float = 1.0) -> None:
        """Print images a second, and which part of the limit that is."""
        reached = speed * passes * self.flops / self.matmul
        say(f"{name}: {speed:.2f} images/s, {reached:.1%} of the matrix product's rate")


def load_unet(settings: Settings, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """Load the network of the generator directory."""
    from diffusers import UNet2DModel

    unet = UNet2DModel.from_pretrained(Path(settings.generator) / "unet", torch_dtype=dtype)
    network: torch.nn.Module = unet.eval()
    return network


@torch.inference_mode()
def flops_of_a_pass(settings: Settings, device: torch.device) -> float:
    """Return the floating-point operations of the network for one image."""
    unet = load_unet(settings).to(device)
    noisy = torch.zeros((1, *network_shape(unet.config)), device=device)
    with FlopCounterMode(display=False) as counter:
        unet(noisy, 0, class_labels=torch.zeros(1, dtype=torch.int64, device=device))
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
