"""How far apart the clients' updates are, for rules that choose among them."""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from fedeas_app.strategies.updates import Updates


def squared_distances(
    models: Updates, partitions: Sequence[int], names: Collection[str]
) -> NDArray[np.float64]:
    """Return ‖Δ_i − Δ_j‖² of each two clients, shape (n, n), zero on the diagonal.

    From products of the updates in float64, block by block. Flower's `compute_distances` takes them
    from whole models in float32, where what tells the clients apart is lost beside the weights
    themselves, and holds all models at once.

    Parameters
    ----------
    models : Updates
    partitions : sequence of int
    names : collection of str
        The floating-point arrays that count, such as the trainable parameters.
    """
    products = np.zeros((len(partitions), len(partitions)))
    for name in names:
        for block, w_t in models.blocks(name, partitions):
            deltas = block - w_t
            products += deltas @ deltas.T
    squares = np.diag(products)
    distances = np.maximum(0, squares[:, None] + squares[None, :] - 2 * products)
    np.fill_diagonal(distances, 0)
    return distances


def krum_scores(distances: NDArray[np.float64], hostile: int) -> NDArray[np.float64]:
    """Return each client's Krum score: the sum of its n − f − 2 smallest distances to others.

    Blanchard et al., arXiv 1703.02757, section 4.

    Parameters
    ----------
    distances : ndarray, shape (n, n)
        Squared distances.
    hostile : int
        f, with n ≥ 2f + 3.

    Returns
    -------
    ndarray, shape (n,)
        The smaller, the nearer to the others.
    """
    count = len(distances)
    others = distances[~np.eye(count, dtype=bool)].reshape(count, count - 1)
    scores: NDArray[np.float64] = np.sort(others)[:, : count - hostile - 2].sum(axis=1)
    return scores
