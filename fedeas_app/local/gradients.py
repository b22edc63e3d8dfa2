"""The gradient of one batch, in two halves where the whole does not fit into memory.

A loss is a mean over the batch, so that the halves' gradients, each by its share of the images,
add up to the same step but for rounding. Batch normalisation is the exception: it sees each half by
itself.
"""

from collections.abc import Callable, Sequence
from logging import WARNING
from typing import Protocol

import torch
from flwr.common.logger import log
from torch.nn import functional

from fedeas_app.devices import is_out_of_memory, release

# Images to logits, and what an algorithm adds to their cross-entropy, a mean over them as well.
Forward = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor | float]]
# The tensors of a batch, or of a part of it, to the loss and what is added to it, both means.
Loss = Callable[..., tuple[torch.Tensor, torch.Tensor | float]]


class Optimizer(Protocol):
    """What owns the parameters."""

    def zero_grad(self) -> None:
        """Forget their gradients."""


def cross_entropy(forward: Forward) -> Loss:
    """Return the loss of images and their labels."""

    def loss(
        images: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | float]:
        logits, term = forward(images)
        return functional.cross_entropy(logits, labels), term

    return loss


class Gradients:
    """Leaves each batch's gradient in the parameters; once one did not fit, all are halved.

    Parameters
    ----------
    loss : callable
    optimizer : Optimizer
        Whose parameters they are.
    """

    def __init__(self, loss: Loss, optimizer: Optimizer) -> None:
        self._loss = loss
        self._optimizer = optimizer
        self._parts = 1

    def __call__(self, *batch: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch, without any added term.

        Parameters
        ----------
        *batch : tensors, shape (n, ...) each
            What the loss takes.

        Raises
        ------
        RuntimeError, MemoryError
            Not even half of it fits.
        """
        if self._parts == 1:
            whole = self._try_whole(batch)
            if whole is not None:
                return whole
            self._parts = 2
            release(batch[0].device)
            log(WARNING, "A batch does not fit into memory: it and all later ones are halved.")
        return self._in_parts(batch)

    def _try_whole(self, batch: Sequence[torch.Tensor]) -> torch.Tensor | None:
        try:
            self._optimizer.zero_grad()
            return self._backward(batch, 1.0)
        except (RuntimeError, MemoryError) as error:
            if len(batch[0]) < 2 or not is_out_of_memory(error):
                raise
        return None

    def _in_parts(self, batch: Sequence[torch.Tensor]) -> torch.Tensor:
        total = torch.zeros((), device=batch[0].device)
        self._optimizer.zero_grad()
        for part in zip(*(tensor.chunk(2) for tensor in batch), strict=True):
            share = len(part[0]) / len(batch[0])
            total += share * self._backward(part, share)
        return total

    def _backward(self, batch: Sequence[torch.Tensor], share: float) -> torch.Tensor:
        loss, term = self._loss(*batch)
        (loss + term if share == 1 else share * (loss + term)).backward()
        return loss.detach()
