"""FedMedian: the coordinate-wise median (Yin et al., arXiv 1803.01498)."""

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from fedeas_app.strategies.unweighted import Unweighted
from fedeas_app.strategies.updates import Updates


class FedMedian(Unweighted):
    """Take the median of the clients' values, in each coordinate on its own.

    The arithmetic is that of Flower's FedMedian. Its ``aggregate_train`` is not used: it holds all
    models at once, and turns counters into numbers with a half.
    """

    def merge(self, models: Updates, shares: dict[int, float]) -> ArrayRecord:
        """Return the medians; of an even number of values, the mean of the middle two."""
        return models.combine(sorted(shares), median)


def median(block: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median over the clients, from shape (n, m) to (m,)."""
    middle: NDArray[np.float64] = np.median(block, axis=0)
    return middle
