"""The gradient of one batch, in two halves where the whole does not fit into memory.

The loss is a mean over the batch, so that the halves' gradients, each by its share of the images,
add up to the same step but for rounding. Batch normalisation is the exception: it sees each half by
itself.
"""

from collections.abc import Callable
from logging import WARNING
from typing import Protocol

import torch
from flwr.common.logger import log
from torch.nn import functional

from fedeas_app.devices import is_out_of_memory, release

# Images to logits, and what an algorithm adds to their cross-entropy, a mean over them as well.
Forward = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor | float]]


class Optimizer(Protocol):
    """What owns the parameters."""

    def zero_grad(self) -> None:
        """Forget their gradients."""


class Gradients:
    """Leaves each batch's gradient in the parameters; once one did not fit, all are halved.

    Parameters
    ----------
    forward : callable
    optimizer : Optimizer
        Whose parameters they are.
    """

    def __init__(self, forward: Forward, optimizer: Optimizer) -> None:
        self._forward = forward
        self._optimizer = optimizer
        self._parts = 1

    def __call__(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the mean cross-entropy of a batch, without any added term.

        Raises
        ------
        RuntimeError, MemoryError
            Not even half of it fits.
        """
        if self._parts == 1:
            whole = self._try_whole(images, labels)
            if whole is not None:
                return whole
            self._parts = 2
            release(images.device)
            log(WARNING, "A batch does not fit into memory: it and all later ones are halved.")
        return self._in_parts(images, labels)

    def _try_whole(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor | None:
        try:
            self._optimizer.zero_grad()
            return self._backward(images, labels, 1.0)
        except (RuntimeError, MemoryError) as error:
            if len(labels) < 2 or not is_out_of_memory(error):
                raise
        return None

    def _in_parts(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        total = torch.zeros((), device=labels.device)
        self._optimizer.zero_grad()
        for some, theirs in zip(images.chunk(2), labels.chunk(2), strict=True):
            share = len(theirs) / len(labels)
            total += share * self._backward(some, theirs, share)
        return total

    def _backward(self, images: torch.Tensor, labels: torch.Tensor, share: float) -> torch.Tensor:
        logits, term = self._forward(images)
        loss = functional.cross_entropy(logits, labels)
        (loss + term if share == 1 else share * (loss + term)).backward()
        return loss.detach()
