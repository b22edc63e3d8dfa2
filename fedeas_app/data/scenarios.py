"""What makes some clients' data poor: wrong labels, or few images.

Both are off unless their fraction is set. Which clients are meant depends on the run's seed alone,
and a client works out by itself what happens to its own data.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedeas_app import seeds
from fedeas_app.settings import Settings

Indices = NDArray[np.int64]


def noisy_clients(num_clients: int, settings: Settings) -> list[int]:
    """Return the partitions whose labels are partly wrong, in order."""
    return _chosen("noisy", settings.noisy_fraction, num_clients, settings.seed)


def rare_clients(num_clients: int, settings: Settings) -> list[int]:
    """Return the partitions that keep at most ``rare-cap`` images, in order."""
    return _chosen("rare", settings.rare_fraction, num_clients, settings.seed)


def make_rare(parts: Sequence[Indices], settings: Settings) -> list[Indices]:
    """Return the partition with the rare clients cut down to a random subset, its order kept."""
    rare = rare_clients(len(parts), settings)
    return [_cut(part, k, settings) if k in rare else part for k, part in enumerate(parts)]


def observed_labels(
    labels: Indices, partition: int, num_clients: int, num_classes: int, settings: Settings
) -> Indices:
    """Return the labels that a client sees: its own, or partly wrong ones.

    Parameters
    ----------
    labels : ndarray of int64, shape (n,)
        The true labels of the client's images.
    partition : int
        Which client it is.
    num_clients, num_classes : int
        K and C.
    settings : Settings
        ``noisy_fraction``, ``noise_rate`` and ``seed`` are used.

    Returns
    -------
    ndarray of int64, shape (n,)
        At a noisy client, ``noise_rate`` of them (rounded) are another class, each of the C - 1
        others equally likely.
    """
    if partition not in noisy_clients(num_clients, settings) or num_classes < 2:
        return labels
    rng = seeds.numpy_rng("noise", settings.seed, partition)
    wrong = rng.choice(len(labels), round(settings.noise_rate * len(labels)), replace=False)
    noisy = labels.copy()
    noisy[wrong] = (labels[wrong] + rng.integers(1, num_classes, len(wrong))) % num_classes
    return noisy


def observed_counts(
    labels: Indices, parts: Sequence[Indices], num_classes: int, settings: Settings
) -> Indices:
    """Count the samples of each class as the clients see them, shape (K, C)."""
    seen = [
        observed_labels(labels[part], k, len(parts), num_classes, settings)
        for k, part in enumerate(parts)
    ]
    rows = [np.bincount(own, minlength=num_classes) for own in seen]
    return np.array(rows, dtype=np.int64).reshape(len(parts), num_classes)


def describe(num_clients: int, settings: Settings) -> dict[str, Any]:
    """Return which clients are noisy and rare, for the manifest; empty if none is."""
    noisy, rare = noisy_clients(num_clients, settings), rare_clients(num_clients, settings)
    told = {"noisy-clients": noisy, "noise-rate": settings.noise_rate} if noisy else {}
    return told | ({"rare-clients": rare, "rare-cap": settings.rare_cap} if rare else {})


def describe_in_words(num_clients: int, settings: Settings) -> list[str]:
    """Return a line for each kind of poor client that the run has."""
    noisy, rare = noisy_clients(num_clients, settings), rare_clients(num_clients, settings)
    lines = []
    if noisy:
        lines.append(f"Noisy ({settings.noise_rate:.0%} of the labels wrong): {_names(noisy)}.")
    if rare:
        lines.append(f"Rare (at most {settings.rare_cap:,} images): {_names(rare)}.")
    return lines


def _names(clients: list[int]) -> str:
    return f"clients {', '.join(map(str, clients))}"


def _chosen(name: str, fraction: float, num_clients: int, seed: int) -> list[int]:
    """Draw that share of the clients, rounded, and not none if there is to be any."""
    count = max(1, round(fraction * num_clients)) if fraction else 0
    rng = seeds.numpy_rng("scenario", name, seed)
    return sorted(rng.choice(num_clients, count, replace=False).tolist())


def _cut(part: Indices, partition: int, settings: Settings) -> Indices:
    rng = seeds.numpy_rng("rare", settings.seed, partition)
    size = min(settings.rare_cap, len(part))
    return part[np.sort(rng.choice(len(part), size, replace=False))]
