"""Gaussian noise, and the arrays that get it."""

import os
from collections.abc import Callable, Collection

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray
from scipy.special import ndtri

from fedeas_app import seeds
from fedeas_app.settings import Settings

# From a number n to n standard normal values.
Normal = Callable[[int], NDArray[np.float64]]


def system_normal(size: int) -> NDArray[np.float64]:
    """Return standard normal values from the operating system's randomness, shape (size,).

    Nobody can draw them again, as one who knows the seed could.
    """
    bits = np.frombuffer(os.urandom(8 * size), np.uint64) >> np.uint64(12)
    values: NDArray[np.float64] = ndtri((bits + 0.5) * 2.0**-52)  # 52 bits: neither 0 nor 1
    return values


def source(settings: Settings, *purpose: int | str) -> Normal:
    """Return where noise comes from: the operating system or, to repeat a run, the seed.

    Parameters
    ----------
    settings : Settings
    *purpose : int or str
        What the noise is for, such as a round; each purpose has a stream of its own.
    """
    if settings.noise_source == "system":
        return system_normal
    return seeds.numpy_rng("noise", settings.seed, *purpose).standard_normal


def with_noise(
    arrays: ArrayRecord, names: Collection[str], deviation: float, normal: Normal
) -> ArrayRecord:
    """Return the arrays, with noise of this standard deviation in those named.

    Added in float64, and stored in each array's own type.
    """
    return ArrayRecord(
        {n: _noisy(a, deviation, normal) if n in names else a for n, a in arrays.items()}
    )


def _noisy(array: Array, deviation: float, normal: Normal) -> Array:
    values = array.numpy()
    noise = deviation * normal(values.size).reshape(values.shape)
    return Array(np.asarray(values + noise, values.dtype))
