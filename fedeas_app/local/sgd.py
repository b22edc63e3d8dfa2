"""Plain local SGD, the client's side of FedAvg (McMahan et al., arXiv 1602.05629)."""

from collections.abc import Callable

import torch

from fedeas_app.local.examples import Examples
from fedeas_app.local.gradients import Forward, Gradients, cross_entropy
from fedeas_app.local.optimizer import Sgd
from fedeas_app.settings import Settings

# Changes the gradients of a batch before the step.
Correction = Callable[[], None]


def train_sgd(
    model: torch.nn.Module,
    examples: Examples,
    settings: Settings,
    rng: torch.Generator,
    *,
    forward: Forward | None = None,
    correct: Correction | None = None,
) -> float:
    """Train the model in place for the local epochs and return the mean loss over what was seen.

    Parameters
    ----------
    model : torch.nn.Module
        Holds the global weights on entry and the local ones on return.
    examples : Examples
        Real and synthetic images, on the model's device.
    settings : Settings
    rng : torch.Generator
        Orders the batches and draws the augmentation.
    forward : callable, optional
        Gives the logits and a term to add to the loss; the model's logits alone if left out. The
        term is not part of the loss returned.
    correct : callable, optional
        Called between the gradients of a batch and the step that they lead to.
    """
    optimizer = Sgd(
        model.parameters(), settings.learning_rate, settings.momentum, settings.weight_decay
    )
    loss_of = cross_entropy(forward or (lambda images: (model(images), 0.0)))
    gradients = Gradients(loss_of, optimizer)
    model.train()
    total = torch.zeros((), device=examples.labels.device)
    for _ in range(settings.local_epochs):
        for images, labels in examples.batches(settings.batch_size, rng, augment=settings.augment):
            loss = gradients(images, labels)
            if correct is not None:
                correct()
            optimizer.step()
            total += loss * len(labels)
    return float(total) / max(1, len(examples) * settings.local_epochs)
