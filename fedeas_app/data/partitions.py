"""Which client holds which samples, as Flower Datasets' partitioners decide it."""

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedeas_app import files
from fedeas_app.data import partitioners
from fedeas_app.data.partitioners import Indices
from fedeas_app.data.scenarios import make_rare
from fedeas_app.reading import read_array
from fedeas_app.settings import Settings
from fedeas_app.store import DamagedError, load_or_build


def partition(labels: NDArray[np.int64], num_clients: int, settings: Settings) -> list[Indices]:
    """Spread samples over clients.

    The work is done by Flower Datasets: ``DirichletPartitioner``, ``PathologicalPartitioner`` or
    ``IidPartitioner``, each with the run's seed and its own defaults, and the result is exactly
    theirs. ``IidPartitioner`` cuts the dataset into contiguous pieces, which a dataset sorted by
    label would turn into skew; it therefore gets the dataset shuffled with the seed, as
    ``FederatedDataset`` does by default. ``PathologicalPartitioner`` draws the classes of each
    client, so that a class may go to none: its samples are then unused, and a warning is logged.

    The result is kept in ``cache_path/partitions`` for all processes of the machine. Rare clients
    (``rare-fraction``) get a part of theirs.

    Parameters
    ----------
    labels : ndarray of int, shape (N,)
        The class of each sample.
    num_clients : int
        K.
    settings : Settings
        ``partitioner``, ``alpha``, ``classes_per_client``, ``min_partition_size``,
        ``rare_fraction``, ``rare_cap``, ``seed`` and ``cache_dir`` are used.

    Returns
    -------
    list of ndarray of int64, length K
        The sample indices of each client, in the partitioner's order.

    Raises
    ------
    UserError
        A client would get too few samples or none; for Dirichlet the sentence names values
        that work.
    """
    labels = np.ascontiguousarray(labels, dtype=np.int64)
    partitioners.check_possible(labels, num_clients, settings)
    target = settings.cache_path / "partitions" / _key(labels, num_clients, settings)
    read = partial(_read, num_clients=num_clients, num_samples=len(labels))
    fill = partial(_fill, labels=labels, num_clients=num_clients, settings=settings)
    return make_rare(load_or_build(target, read, fill), settings)


def counts(
    labels: NDArray[np.int64], parts: Sequence[Indices], num_classes: int
) -> NDArray[np.int64]:
    """Count each client's samples of each class.

    Parameters
    ----------
    labels : ndarray of int, shape (N,)
    parts : sequence of ndarray of int, length K
    num_classes : int
        C.

    Returns
    -------
    ndarray of int64, shape (K, C)
    """
    rows = [np.bincount(labels[part], minlength=num_classes) for part in parts]
    return np.array(rows, dtype=np.int64).reshape(len(parts), num_classes)


def partition_digest(parts: Sequence[Indices]) -> str:
    """Return the SHA-256 over the clients' sample indices, their order included."""
    state = hashlib.sha256(json.dumps([len(part) for part in parts]).encode())
    for part in parts:
        state.update(np.ascontiguousarray(part, dtype="<i8").data)
    return state.hexdigest()


def _key(labels: Indices, num_clients: int, settings: Settings) -> str:
    rule = [
        version("flwr-datasets"),  # another version may draw other partitions
        files.sha256(labels.data),
        num_clients,
        settings.partitioner,
        settings.alpha if settings.partitioner == "dirichlet" else None,
        settings.classes_per_client if settings.partitioner == "classes" else None,
        settings.min_partition_size,
        settings.seed,
    ]
    return files.sha256(json.dumps(rule).encode())


def _fill(directory: Path, *, labels: Indices, num_clients: int, settings: Settings) -> None:
    parts = partitioners.compute(labels, num_clients, settings)
    np.save(directory / "indices.npy", np.concatenate(parts), allow_pickle=False)
    sizes = np.array([len(part) for part in parts], dtype=np.int64)
    np.save(directory / "sizes.npy", sizes, allow_pickle=False)
    files.write_text(directory / "digest.txt", partition_digest(parts))


def _read(directory: Path, *, num_clients: int, num_samples: int) -> list[Indices]:
    try:
        indices, sizes = (
            np.array(read_array(directory / f"{name}.npy")) for name in ("indices", "sizes")
        )
        digest = (directory / "digest.txt").read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise DamagedError(str(error)) from error
    whole = (
        indices.dtype == sizes.dtype == np.int64
        and sizes.shape == (num_clients,)
        and sizes.sum() == len(indices)
        and indices.min() >= 0
        and indices.max() < num_samples
    )
    if not whole:
        raise DamagedError("the stored partition does not fit the data")
    parts = np.split(indices, np.cumsum(sizes)[:-1])
    if partition_digest(parts) != digest:
        raise DamagedError("the stored partition is not the one that was drawn")
    return parts
