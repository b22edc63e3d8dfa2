"""A client's labelled images as tensors, and batches of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray


@dataclass(frozen=True)
class Examples:
    """Images that stay uint8 until their batch is due.

    Attributes
    ----------
    images : tensor of uint8, shape (n, channels, height, width)
    labels : tensor of int64, shape (n,)
    """

    images: torch.Tensor
    labels: torch.Tensor

    @classmethod
    def from_arrays(cls, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> "Examples":
        """Take images as stored, shape (n, height, width, channels).

        They keep that order in memory, torch's channels_last, in which convolutions are fastest.
        """
        pixels = torch.from_numpy(np.array(images, order="C"))  # a copy: memory maps are read-only
        return cls(pixels.permute(0, 3, 1, 2), torch.from_numpy(np.array(labels)))

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> "Examples":
        """Move all of it to a device, once for a whole round."""
        return Examples(self.images.to(device), self.labels.to(device))

    def batches(
        self, size: int, rng: torch.Generator, *, augment: bool
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield one shuffled pass: pixels in [-2, 2] and labels."""
        order = torch.randperm(len(self), generator=rng)
        for chosen in order.split(size):
            images = self.images[chosen.to(self.images.device)]
            images = crop_and_flip(images, rng) if augment else images
            yield normalise(images), self.labels[chosen.to(self.labels.device)]

    def in_order(self, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield one pass as they are stored, neither shuffled nor augmented."""
        for images, labels in zip(self.images.split(size), self.labels.split(size), strict=True):
            yield normalise(images), labels


def normalise(images: torch.Tensor) -> torch.Tensor:
    """Scale uint8 pixels to [-2, 2], for photographs about zero mean and unit variance.

    Fixed numbers rather than the data's own mean and deviation, which a client could not know
    without telling the others about its data.
    """
    return images.float() / 63.75 - 2


def crop_and_flip(images: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Shift each image by up to an eighth of its size (zeros come in) and mirror half of them.

    Parameters
    ----------
    images : tensor of uint8, shape (n, channels, height, width)
    rng : torch.Generator
        On the CPU, whatever the images' device, so that the draws are the same everywhere.
    """
    count, _, height, width = images.shape
    pad = max(1, height // 8)
    down, right = torch.randint(2 * pad + 1, (2, count, 1), generator=rng)
    flip = torch.rand((count, 1), generator=rng) < 0.5
    columns = torch.arange(width)
    rows = (torch.arange(height) + down).to(images.device)
    columns = (torch.where(flip, width - 1 - columns, columns) + right).to(images.device)
    padded = torch.nn.functional.pad(images, (pad, pad, pad, pad))
    which = torch.arange(count, device=images.device)[:, None, None]
    return padded[which, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
