"""What training a generator federatedly costs a client: bytes and seconds, before it is trained."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import numpy as np
import torch

from fedeas_app.devices import repeatable, resolve_device
from fedeas_app.generators.federated.local import train_locally
from fedeas_app.generators.federated.network import make_network
from fedeas_app.generators.federated.transfer import BYTES
from fedeas_app.local.examples import Examples
from fedeas_app.settings import Settings

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
    """

    parameters: int
    rounds: float
    model_bytes: int
    client_bytes: int
    step_seconds: float
    longest_seconds: float
    total_seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {key.replace("_", "-"): value for key, value in asdict(self).items()}


def estimate(
    settings: Settings, image_shape: tuple[int, int, int], classes: int, sizes: Sequence[int]
) -> Cost:
    """Work out the bytes, and time a few steps for the seconds.

    Parameters
    ----------
    settings : Settings
    image_shape : tuple of int
        (height, width, channels).
    classes : int
    sizes : sequence of int
        Real images of each client.
    """
    unet = make_network(settings, image_shape, classes)
    parameters = sum(p.numel() for p in unet.parameters())
    rounds = settings.generator_rounds * settings.generator_fraction
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
