"""Seeds derived by name, so that no two consumers of randomness ever share a stream."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def derive(*parts: int | str) -> int:
    """Derive a 63-bit seed from a path such as ``("train", seed, round, partition)``.

    Parameters
    ----------
    *parts : int or str
        The path. Different paths give independent seeds; the same path the same seed,
        on every machine and in every process.

    Returns
    -------
    int
        In [0, 2**63).
    """
    # A slash inside a part is doubled, so that ("a", "b") and ("a/str:b",) stay two paths.
    text = "/".join(f"{type(part).__name__}:{part}".replace("/", "//") for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def numpy_rng(*parts: int | str) -> np.random.Generator:
    """Return a NumPy generator seeded by the path."""
    return np.random.default_rng(derive(*parts))


def torch_rng(*parts: int | str) -> "torch.Generator":
    """Return a CPU torch generator seeded by the path."""
    import torch

    return torch.Generator().manual_seed(derive(*parts))


@contextmanager
def global_torch_seed(*parts: int | str) -> Iterator[None]:
    """Seed torch's global stream inside the block only: layer initialisers accept no other.

    The stream's earlier state is put back afterwards.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(*parts))
        yield
