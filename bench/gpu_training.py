"""One script for a CUDA GPU, under eight minutes: a client's local training, step by step faster.

The classifiers are the application's, the images random (speed does not depend on them). Each
outcome is printed as soon as it is known; when the budget of time is used up, what is left is named
and left out.

1. plain: a DataLoader over tensors on the CPU, batches moved one by one, float32, channels first.
2. resident: all images on the device, batches indexed there, pixels scaled there. What clients do
   on a GPU is this with channels last (3).
3. channels last.
4. tf32: matrix products of float32 with fewer bits of mantissa.
5. bf16: autocast to bfloat16.
6. compiled: the network's forward and backward pass compiled.
7. graphed: the compiled step replayed as a CUDA graph ("reduce-overhead").

Each adds to the one before. Every variant begins at the same weights and sees the same batches, so
that its loss at the end is beside the plain loop's. Where the application is not installed,
``PYTHONPATH=.`` makes it known. A minute on a CPU shows that it runs:

    python bench/gpu_training.py --device cpu --images 256 --models cnn --limit 3
"""

import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
import typer
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from fedeas_app.devices import resolve_device
from fedeas_app.local.examples import normalise
from fedeas_app.models import Classifier, make_model
from fedeas_app.settings import Settings

SHAPE = (32, 32, 3)
CLASSES = 10
Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Variant:
    """Which of the means are used."""

    name: str = "plain"
    resident: bool = False
    channels_last: bool = False
    tf32: bool = False
    bf16: bool = False
    compiled: str = ""


def variants() -> Iterator[Variant]:
    """Yield them in order, each with one more."""
    now = Variant()
    yield now
    for changes in (
        {"name": "resident", "resident": True},
        {"name": "channels last", "channels_last": True},
        {"name": "tf32", "tf32": True},
        {"name": "bf16", "bf16": True},
        {"name": "compiled", "compiled": "default"},
        {"name": "graphed", "compiled": "reduce-overhead"},
    ):
        now = replace(now, **changes)
        yield now


def main(
    device: str = "cuda",
    models: str = "cnn,resnet18",
    images: int = 5000,
    batch: int = 32,
    repeats: int = 3,
    limit: int = 7,
    budget: float = 420.0,
) -> None:
    """Run all variants of all models, or as many as there is time for."""
    end = time.perf_counter() + budget
    bench = Bench(resolve_device(device), images, batch, repeats)
    say(f"{bench.card()}, torch {torch.__version__}, {images:,} images, batches of {batch}")
    failed = False
    for model in models.split(","):
        for variant in list(variants())[:limit]:
            if time.perf_counter() > end:
                say(f"{model}, {variant.name}: left out, the budget of time is used up")
            else:
                failed |= not bench.tell(model, variant)
    raise typer.Exit(int(failed))


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


class Bench:
    """The images, and what they are trained on."""

    def __init__(self, device: torch.device, images: int, batch: int, repeats: int) -> None:
        rng = torch.Generator().manual_seed(0)
        self.device = device
        self.batch = batch
        self.repeats = repeats
        self.labels = torch.randint(CLASSES, (images,), generator=rng)
        height, width, channels = SHAPE
        pixels = torch.randint(256, (images, channels, height, width), generator=rng)
        self.images = pixels.to(torch.uint8)
        self.plain: dict[str, float] = {}

    def card(self) -> str:
        """Name the device."""
        return torch.cuda.get_device_name(self.device) if self.on_gpu else "a CPU"

    @property
    def on_gpu(self) -> bool:
        """Whether the device works on by itself."""
        return self.device.type == "cuda"

    def tell(self, name: str, variant: Variant) -> bool:
        """Measure a variant and print it; return whether it ran."""
        try:
            first, seconds, loss = self.measure(name, variant)
        except Exception:
            traceback.print_exc()
            return False
        speed = len(self.labels) / seconds
        plain = self.plain.setdefault(name, speed)
        say(
            f"{name}, {variant.name}: {speed:,.0f} images/s, {speed / plain:.2f} times plain, "
            f"first epoch {first:.1f} s, loss {loss:.4f}"
        )
        return True

    def measure(self, name: str, variant: Variant) -> tuple[float, float, float]:
        """Return the seconds of the first and of the fastest later epoch, and the last loss."""
        torch.backends.cuda.matmul.allow_tf32 = variant.tf32
        torch.backends.cudnn.allow_tf32 = variant.tf32
        model = make_model(Settings.parse({"model": name, "seed": 0}), SHAPE, CLASSES)
        order = torch.channels_last if variant.channels_last else torch.contiguous_format
        model = model.to(self.device, memory_format=order).train()
        step, seconds = self.step(model, variant), []
        for epoch in range(1 + self.repeats):
            self.wait()
            begin = time.perf_counter()
            loss = self.epoch(step, variant, epoch)
            self.wait()
            seconds.append(time.perf_counter() - begin)
        return seconds[0], min(seconds[1:]), loss

    def step(self, model: Classifier, variant: Variant) -> Callable[[Batch], torch.Tensor]:
        """Return one step of SGD."""
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
        forward = torch.compile(model, mode=variant.compiled) if variant.compiled else model

        def step(batch: Batch) -> torch.Tensor:
            images, labels = batch
            with torch.autocast(self.device.type, torch.bfloat16, enabled=variant.bf16):
                loss = cross_entropy(forward(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach().clone()

        return step

    def epoch(self, step: Callable[[Batch], torch.Tensor], variant: Variant, epoch: int) -> float:
        """Train for an epoch; return the mean loss of its batches."""
        batches = self.resident(variant, epoch) if variant.resident else self.loaded(epoch)
        losses = [step(batch) for batch in batches]
        return float(torch.stack(losses).mean())

    def order(self, epoch: int) -> torch.Tensor:
        """Return the order of the images, without the rest that fills no batch."""
        rng = torch.Generator().manual_seed(epoch)
        whole = len(self.labels) // self.batch * self.batch
        return torch.randperm(len(self.labels), generator=rng)[:whole]

    def loaded(self, epoch: int) -> Iterator[Batch]:
        """Yield batches of a DataLoader, moved one by one."""
        rows = TensorDataset(self.images, self.labels)
        order = self.order(epoch).tolist()
        for images, labels in DataLoader(rows, self.batch, sampler=order):
            yield normalise(images).to(self.device), labels.to(self.device)

    def resident(self, variant: Variant, epoch: int) -> Iterator[Batch]:
        """Yield batches of images that lie on the device."""
        order = torch.channels_last if variant.channels_last else torch.contiguous_format
        images = self.images.to(self.device, memory_format=order)
        labels = self.labels.to(self.device)
        for chosen in self.order(epoch).to(self.device).split(self.batch):
            yield normalise(images[chosen]).contiguous(memory_format=order), labels[chosen]

    def wait(self) -> None:
        """Wait until the device has done all it was asked to."""
        if self.on_gpu:
            torch.cuda.synchronize(self.device)


if __name__ == "__main__":
    typer.run(main)
