"""As many images at a time as the device holds."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from fedeas_app.errors import UserError

MakeBatch = Callable[[slice, int], torch.Tensor]

ON_CPU = 128  # more is not faster there
# On a GPU. A client's last batch is filled up to its full size, and images are kept when their
# batch is done: beyond 256 a client that lacks a few hundred images would wait longer for nothing.
_MOST, _LEAST = 256, 16
_TRIAL = 8  # images
_SHARE = 0.5  # of the device's memory: the classifier of another client may be there as well

_found: dict[tuple[str, str], int] = {}  # by the digest of a generator and the device


def in_batches(
    make: MakeBatch, count: int, size: int, name: str
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yield every batch; where one does not fit into memory, it and all later ones are halved.

    Parameters
    ----------
    make : callable
        From a slice of [0, count), and the number of images at a time by now, to its images.
    count : int
    size : int
        Images at a time, at first.
    name : str
        Of the generator, for messages.

    Raises
    ------
    UserError
        Not even one image fits.
    """
    start = 0
    while start < count:
        batch = slice(start, min(start + size, count))
        try:
            images = make(batch, size)
        except torch.OutOfMemoryError:
            size = _halve(size, name)
            continue
        yield batch, images
        start = batch.stop


def rows_of(batch: slice, size: int, count: int, device: torch.device) -> NDArray[np.int64]:
    """Return the rows of a batch; a GPU's last one is filled up, so that its kernels are the same.

    An image then does not depend on how many others were asked for.
    """
    stop = batch.stop if device.type != "cuda" else max(batch.stop, batch.start + size)
    return np.minimum(np.arange(batch.start, stop), count - 1)


def too_small(name: str) -> UserError:
    """Return the error for a device that cannot hold a generator."""
    return UserError(
        f"The generator {name} does not fit into the memory of the device even for one image at a "
        'time; free some of it, or set device = "cpu".'
    )


def find_size(device: torch.device, forward: Callable[[int], object], digest: str) -> int:
    """Return how many images at a time suit a device, the same for every request.

    On a GPU the largest power of two whose forward pass takes half of the device's memory, as a
    small trial tells. The process remembers it, since its next client has the same generator.

    Parameters
    ----------
    device : torch.device
    forward : callable
        Runs the network once on so many images.
    digest : str
        Of the generator.
    """
    if device.type != "cuda":
        return ON_CPU
    place = (digest, str(device))
    try:
        if place not in _found:
            _found[place] = _try_size(device, forward)
    except torch.OutOfMemoryError:  # too little even for the trial: halving finds the rest
        return _TRIAL
    return _found[place]


def power_of_two_below(images: float) -> int:
    """Return the largest power of two that is no more, within what makes sense on a GPU."""
    size = _MOST
    while size > images and size > _LEAST:
        size //= 2
    return size


def _try_size(device: torch.device, forward: Callable[[int], object]) -> int:
    used = _peak(device, forward, 2 * _TRIAL) - _peak(device, forward, _TRIAL)
    total = torch.cuda.get_device_properties(device).total_memory
    return power_of_two_below(_SHARE * total / max(1.0, used / _TRIAL))


def _peak(device: torch.device, forward: Callable[[int], object], count: int) -> int:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    forward(count)
    return torch.cuda.max_memory_allocated(device)


def _halve(size: int, name: str) -> int:
    if size == 1:
        raise too_small(name)
    return size // 2
