"""Plain local SGD, the client's side of FedAvg (McMahan et al., arXiv 1602.05629)."""

import torch
from torch.nn import functional

from fedeas_app.local.examples import Examples
from fedeas_app.settings import Settings


def train_sgd(
    model: torch.nn.Module, examples: Examples, settings: Settings, rng: torch.Generator
) -> float:
    """Train the model in place for the local epochs and return the mean loss over what was seen.

    Parameters
    ----------
    model : torch.nn.Module
        Holds the global weights on entry and the local ones on return.
    examples : Examples
        Real and synthetic images, on the model's device.
    settings : Settings
        Epochs, batch size, learning rate, momentum, weight decay, augmentation.
    rng : torch.Generator
        Orders the batches and draws the augmentation.
    """
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=settings.learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
    )
    model.train()
    total = torch.zeros((), device=examples.labels.device)
    for _ in range(settings.local_epochs):
        for images, labels in examples.batches(settings.batch_size, rng, augment=settings.augment):
            loss = functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(labels)
    return float(total) / max(1, len(examples) * settings.local_epochs)
