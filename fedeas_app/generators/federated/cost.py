"""What training a generator federatedly costs: bytes and seconds, before it is trained.

And what to hold against that: the bytes of the images that pooling would move, and the seconds that
an image takes to draw, which every image saves that a policy does not want.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil, prod
from typing import Any

import numpy as np
import torch

from fedeas_app.devices import repeatable, resolve_device
from fedeas_app.generators.federated.copies import to_check
from fedeas_app.generators.federated.local import train_locally
from fedeas_app.generators.federated.network import make_network
from fedeas_app.generators.federated.options import for_rounds
from fedeas_app.generators.federated.transfer import BYTES
from fedeas_app.generators.sampling import DEFAULT_STEPS
from fedeas_app.local.examples import Examples
from fedeas_app.settings import Settings
from fedeas_app.strategies.base import cohort_size

_TIMED = 3  # steps


@dataclass(frozen=True)
class Cost:
    """The price of a generator.

    Attributes
    ----------
    parameters : int
    rounds : int
        In which a client takes part, as a mean over clients.
    model_bytes : int
        Of the network, as it travels once.
    client_bytes : int
        Of a client, both ways, in all these rounds, and for the finished generator.
    step_seconds : float
        One step of a full batch on this machine.
    longest_seconds : float
        Of the client with the most images, in all its rounds: what a deployment waits for.
    total_seconds : float
        Of all clients, one after the other: what a simulation on one core takes.
    pooled_bytes : int
        Of all clients' images as they are stored, which pooling would move once.
    image_seconds : float
        To draw an image on this machine: the network's calls, without what lies between them.
    checked_images : int
        That clients draw to search them for copies of their own: of all, or of those known.
    """

    parameters: int
    rounds: float
    model_bytes: int
    client_bytes: int
    step_seconds: float
    longest_seconds: float
    total_seconds: float
    pooled_bytes: int
    image_seconds: float
    checked_images: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {key.replace("_", "-"): value for key, value in asdict(self).items()}


def estimate(
    settings: Settings, image_shape: tuple[int, int, int], classes: int, sizes: Sequence[int]
) -> Cost:
    """Work out the bytes, and time a few steps and calls of the network for the seconds.

    Parameters
    ----------
    settings : Settings
        With a number of clients.
    image_shape : tuple of int
        (height, width, channels).
    classes : int
    sizes : sequence of int
        Real images of each client, or of those that are known.
    """
    unet = make_network(settings, image_shape, classes)
    parameters = sum(p.numel() for p in unet.parameters())
    clients = int(settings.num_clients)
    cohort = cohort_size(for_rounds(settings), clients)
    rounds = settings.generator_rounds * cohort / clients
    model = BYTES[settings.generator_transfer] * parameters
    second = _time_step(unet, settings, image_shape)
    steps = [ceil(size / settings.generator_batch_size) for size in sizes]
    each = second * rounds * settings.generator_epochs
    return Cost(
        parameters=parameters,
        rounds=rounds,
        model_bytes=model,
        client_bytes=round(2 * rounds * model + 4 * parameters),
        step_seconds=second,
        longest_seconds=each * max(steps),
        total_seconds=each * sum(steps),
        pooled_bytes=sum(sizes) * prod(image_shape),
        image_seconds=_time_call(unet, settings) * _calls(settings),
        checked_images=sum(to_check(settings, size) for size in sizes),
    )


def _time_step(unet: Any, settings: Settings, image_shape: tuple[int, int, int]) -> float:
    """Return the seconds of a step, after one that warms up."""
    size = settings.generator_batch_size
    once = Settings.parse(settings.to_flat() | {"generator-epochs": 1})
    device = resolve_device(settings.device)
    unet = unet.to(device)

    def work(steps: int) -> float:
        images = np.zeros((size * steps, *image_shape), np.uint8)
        examples = Examples.from_arrays(images, np.zeros(len(images), np.int64)).to(device)
        begin = time.perf_counter()
        train_locally(unet, examples, once, 1, torch.Generator().manual_seed(0))
        return time.perf_counter() - begin

    with repeatable(settings.threads):
        work(1)
        return work(_TIMED) / _TIMED


@torch.inference_mode()
def _time_call(unet: Any, settings: Settings) -> float:
    """Return the seconds of a call of the network for one image of a batch."""
    size, device = settings.generator_batch_size, resolve_device(settings.device)
    shape = (size, unet.config.in_channels, *unet.config.sample_size)
    images = torch.zeros(shape, device=device)
    labels = torch.zeros(size, dtype=torch.long, device=device)
    network = unet.to(device).eval()
    with repeatable(settings.threads):
        begin = time.perf_counter()
        float(network(images, 0, class_labels=labels).sample.mean())  # waits for a GPU's answer
        return (time.perf_counter() - begin) / size


def _calls(settings: Settings) -> int:
    """Return how often drawing an image calls the network."""
    steps = settings.sampler_steps or DEFAULT_STEPS[settings.sampler]
    return steps * (1 if settings.guidance_scale in (0, 1) else 2)
