"""What a local algorithm gets and gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from fedeas_app.local.examples import Examples
from fedeas_app.models import Classifier
from fedeas_app.settings import Settings

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Job:
    """One client's training in one round.

    Attributes
    ----------
    model : Classifier
        Holds the global weights; a local algorithm leaves the local ones there.
    examples : Examples
        Real and synthetic images, on the model's device.
    settings : Settings
    rng : torch.Generator
        Orders the batches and draws the augmentation.
    received : mapping of str to tensor
        What the server sent beside the model, by parameter name.
    state : mapping of str to tensor
        What this client kept of its last round; empty the first time, or when it was lost.
    """

    model: Classifier
    examples: Examples
    settings: Settings
    rng: torch.Generator
    received: Tensors = field(default_factory=dict)
    state: Tensors = field(default_factory=dict)


class Outcome(NamedTuple):
    """What is left of a round beside the model.

    Attributes
    ----------
    loss : float
        The mean cross-entropy over what was seen, without any added term.
    state : mapping of str to tensor
        What the client keeps for its next round.
    sent : mapping of str to tensor
        What the server gets beside the model, by parameter name.
    """

    loss: float
    state: Tensors
    sent: Tensors


def trainable(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """Return the trainable parameters by name: no buffers, such as batch statistics."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def copied(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a copy of the trainable parameters as they are now."""
    return {name: p.detach().clone() for name, p in trainable(model).items()}
