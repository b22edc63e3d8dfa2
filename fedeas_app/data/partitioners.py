"""Flower Datasets' partitioners, and what works where they give up."""

import logging
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedeas_app.errors import UserError
from fedeas_app.settings import Settings

if TYPE_CHECKING:
    from datasets import Dataset
    from flwr_datasets.partitioner import Partitioner

_LOG = logging.getLogger(__name__)
_ALPHAS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
_TRIES = 11  # of the Dirichlet partitioner, before it gives up

Indices = NDArray[np.int64]


def compute(labels: Indices, num_clients: int, settings: Settings) -> list[Indices]:
    """Run the partitioner that the settings name; see :func:`fedeas_app.data.partition`."""
    if settings.partitioner == "iid":
        return _iid(labels, num_clients, settings.seed)
    if settings.partitioner == "classes":
        return _by_classes(labels, num_clients, settings)
    try:
        return _dirichlet(labels, num_clients, settings, settings.alpha, _least(settings))
    except ValueError as error:
        raise UserError(_too_skewed(labels, num_clients, settings)) from error


def check_possible(labels: Indices, num_clients: int, settings: Settings) -> None:
    """Refuse what no partitioner can do, whatever it draws."""
    if num_clients < 1:
        raise UserError(f"num-clients is {num_clients}; at least one client is needed.")
    most = len(labels) // num_clients
    if most < 1:
        raise UserError(
            f"{num_clients} clients cannot share {len(labels)} samples; "
            f"take at most {len(labels)} clients."
        )
    if most < settings.min_partition_size:
        raise UserError(
            f"min-partition-size is {settings.min_partition_size}, but {len(labels)} samples give "
            f"{num_clients} clients at most {most} each; lower it or take fewer clients."
        )
    present = len(np.unique(labels))
    if settings.partitioner == "classes" and settings.classes_per_client > present:
        raise UserError(
            f"classes-per-client is {settings.classes_per_client}, but the training set has "
            f"{present} classes; at most {present} is allowed."
        )


def _least(settings: Settings) -> int:
    """Return the smallest allowed size: 0 in the settings still excludes empty clients."""
    return max(1, settings.min_partition_size)


def _iid(labels: Indices, num_clients: int, seed: int) -> list[Indices]:
    from flwr_datasets.partitioner import IidPartitioner

    shuffled = _dataset(labels).shuffle(seed=seed)
    return _run(IidPartitioner(num_partitions=num_clients), shuffled, num_clients)


def _by_classes(labels: Indices, num_clients: int, settings: Settings) -> list[Indices]:
    from flwr_datasets.partitioner import PathologicalPartitioner

    partitioner = PathologicalPartitioner(
        num_partitions=num_clients,
        partition_by="label",
        num_classes_per_partition=settings.classes_per_client,
        seed=settings.seed,
    )
    try:
        parts = _run(partitioner, _dataset(labels), num_clients)
    except ValueError as error:
        raise UserError(
            f"{num_clients} clients with classes-per-client {settings.classes_per_client} share "
            "a class that has fewer samples than clients; take fewer of either."
        ) from error
    _warn_of_unused(np.setdiff1d(labels, labels[np.concatenate(parts)]))
    smallest = min(map(len, parts))
    if smallest < _least(settings):
        raise UserError(
            f"The smallest of {num_clients} clients with classes-per-client "
            f"{settings.classes_per_client} gets {smallest} samples; set min-partition-size to at "
            f"most {smallest}, or take fewer clients."
        )
    return parts


def _dirichlet(
    labels: Indices, num_clients: int, settings: Settings, alpha: float, least: int
) -> list[Indices]:
    from flwr_datasets.partitioner import DirichletPartitioner

    partitioner = DirichletPartitioner(
        num_partitions=num_clients,
        partition_by="label",
        alpha=alpha,
        min_partition_size=least,
        seed=settings.seed,
    )
    return _run(partitioner, _dataset(labels), num_clients)


def _dataset(labels: Indices) -> "Dataset":
    import datasets

    return datasets.Dataset.from_dict({"label": labels, "index": np.arange(len(labels))})


def _run(partitioner: "Partitioner", dataset: "Dataset", num_clients: int) -> list[Indices]:
    partitioner.dataset = dataset
    with warnings.catch_warnings():
        # It warns at each try; what matters is said once, in words of this program's keys.
        warnings.simplefilter("ignore", UserWarning)
        loaded = [partitioner.load_partition(client) for client in range(num_clients)]
    columns = (part.with_format("numpy")["index"][:] for part in loaded)
    return [np.asarray(column, dtype=np.int64) for column in columns]


def _warn_of_unused(classes: NDArray[np.int64]) -> None:
    if classes.size:
        _LOG.warning(
            "No client was given the classes %s, whose samples are unused; "
            "more clients or a larger classes-per-client make that rarer.",
            ", ".join(map(str, classes.tolist())),
        )


def _too_skewed(labels: Indices, num_clients: int, settings: Settings) -> str:
    least = _least(settings)
    options = list(_working_options(labels, num_clients, settings))
    advice = " or ".join(options) or "take fewer clients"
    return (
        f"With alpha {settings.alpha:g}, {_TRIES} tries gave no Dirichlet partition in which each "
        f"of {num_clients} clients has min-partition-size {least} samples; {advice}."
    )


def _working_options(labels: Indices, num_clients: int, settings: Settings) -> Iterator[str]:
    """Yield what the user can set instead, each tried with the partitioner itself."""
    least = _least(settings)

    def works(alpha: float, size: int) -> bool:
        try:
            return size > 0 and bool(_dirichlet(labels, num_clients, settings, alpha, size))
        except ValueError:
            return False

    shares = {
        alpha: _smallest_share(labels, num_clients, alpha, settings.seed)
        for alpha in (settings.alpha, *(larger for larger in _ALPHAS if larger > settings.alpha))
    }
    smaller = shares.pop(settings.alpha)
    alone = next((alpha for alpha, share in shares.items() if share >= least), None)
    both = next((alpha for alpha, share in shares.items() if share > 0), None)
    if works(settings.alpha, smaller):
        yield f"set min-partition-size to {smaller}"
    if alone is not None and works(alone, least):
        yield f"set alpha to {alone:g}"
    elif not smaller and both is not None and works(both, shares[both]):
        yield f"set alpha to {both:g} and min-partition-size to {shares[both]}"


def _smallest_share(labels: Indices, num_clients: int, alpha: float, seed: int) -> int:
    """Return the smallest client's size in the partitioner's best try.

    Its draws are repeated without its samples, which is a hundred times faster.
    """
    rng = np.random.default_rng(seed)
    sizes = np.unique(labels, return_counts=True)[1][:, np.newaxis]
    best = 0
    for _ in range(_TRIES):
        shares = rng.dirichlet(np.full(num_clients, alpha), size=len(sizes))
        cuts = (np.cumsum(shares, axis=1) * sizes).astype(np.int64)
        cuts[:, -1:] = sizes
        best = max(best, int(np.diff(cuts, axis=1, prepend=0).sum(axis=0).min()))
    return best
