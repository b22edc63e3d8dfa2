"""A client's part in a round: steps of the DDPM's training on its own images.

Ho et al., "Denoising Diffusion Probabilistic Models", arXiv 2006.11239, Algorithm 1, with the
labels dropped as in `fedeas_app.generators.trainer`. The optimizer begins anew in every round, as
clients keep nothing between rounds.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from fedeas_app.devices import resolve_precision
from fedeas_app.errors import PublicError
from fedeas_app.generators.federated.options import for_rounds, step_size
from fedeas_app.generators.network import fold
from fedeas_app.generators.trainer import CLIP, make_noise_scheduler
from fedeas_app.local.divergence import or_server_step
from fedeas_app.local.examples import Examples
from fedeas_app.local.fedprox import proximal_pull
from fedeas_app.local.gradients import Gradients
from fedeas_app.settings import Settings

EMBEDDING = "class_embedding.weight"
"""The parameter with a row for each label."""


def train_locally(
    unet: Any, examples: Examples, settings: Settings, server_round: int, rng: torch.Generator
) -> float:
    """Train the network in place for the local epochs and return the mean loss.

    Parameters
    ----------
    unet : UNet2DModel
        Holds the global weights on entry and the local ones on return.
    examples : Examples
        Real images alone, on the network's device; without any the network stays as it is.
    settings : Settings
    server_round : int
        From 1; it decides the step size.
    rng : torch.Generator
        Orders the batches, and draws noise, times and the labels that are dropped.

    Raises
    ------
    PublicError
        Training diverged.
    """
    draws = _Draws(settings, rng)
    optimizer = _optimizer(unet, step_size(settings, server_round))
    gradients = Gradients(partial(_loss, unet), optimizer)
    pull = proximal_pull(unet, settings.generator_mu)
    unet.train()
    total = torch.zeros((), device=examples.labels.device)
    for images, labels in _batches(examples, settings, rng):
        loss = gradients(*draws.noisy(images), draws.told(unet, labels))
        if pull is not None:
            pull()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), CLIP)
        optimizer.step()
        total += loss * len(labels)
    _require_finite(total, settings)
    return float(total) / max(1, len(examples) * settings.generator_epochs)


class _Draws:
    """What chance decides of a batch; it draws on the CPU, so that all devices see the same."""

    def __init__(self, settings: Settings, rng: torch.Generator) -> None:
        self._settings = settings
        self._rng = rng
        self._scheduler = make_noise_scheduler()

    def noisy(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return noisy images, the noise in them, and the time of each."""
        clean = fold(images, self._settings.generator_unshuffle)
        noise = torch.randn(clean.shape, generator=self._rng).to(clean.device)
        steps = self._scheduler.config.num_train_timesteps
        times = torch.randint(steps, (len(clean),), generator=self._rng).to(clean.device)
        return self._scheduler.add_noise(clean, noise, times), noise, times

    def told(self, unet: Any, labels: torch.Tensor) -> torch.Tensor:
        """Return the labels with a share of them replaced by the null label, the last one."""
        share = self._settings.generator_label_dropout
        if not share:
            return labels
        dropped = torch.rand(len(labels), generator=self._rng) < share
        return labels.masked_fill(dropped.to(labels.device), unet.config.num_class_embeds - 1)


def _batches(
    examples: Examples, settings: Settings, rng: torch.Generator
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield images in [-1, 1] and their labels, for all local epochs."""
    if not len(examples):  # of which a pass would be one batch of none
        return
    for _ in range(settings.generator_epochs):
        size = settings.generator_batch_size
        for images, labels in examples.batches(size, rng, augment=False):
            yield images / 2, labels


def _loss(
    unet: Any, noisy: torch.Tensor, noise: torch.Tensor, times: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, float]:
    """Return the mean square of what is missed of the noise; no term is added to it."""
    precision = resolve_precision("auto", noisy.device)
    with torch.autocast(
        noisy.device.type, getattr(torch, precision), enabled=precision != "float32"
    ):
        guess = unet(noisy, times, class_labels=labels).sample
    return functional.mse_loss(guess.float(), noise), 0.0


def _optimizer(unet: Any, rate: float) -> torch.optim.AdamW:
    """Return AdamW, which leaves the embeddings alone where they have no gradient.

    Decay would move the rows of classes that a client has no image of.
    """
    rest: dict[str, torch.Tensor] = dict(unet.named_parameters())
    rows = rest.pop(EMBEDDING)
    groups: list[dict[str, Any]] = [
        {"params": list(rest.values())},
        {"params": [rows], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, fused=True)  # one pass for each of many small tensors


def _require_finite(loss: torch.Tensor, settings: Settings) -> None:
    if not loss.isfinite():
        raise PublicError(
            "Training the generator diverged: its loss is not finite any more; lower "
            f"generator-learning-rate, which is {settings.generator_learning_rate:g} (0: that of "
            f"the preset {settings.generator_preset!r}){or_server_step(for_rounds(settings))}."
        )
