"""FedAvg (McMahan et al., arXiv 1602.05629)."""

import numpy as np
from numpy.typing import NDArray

from fedeas_app.strategies.base import WeightedAverage
from fedeas_app.strategies.report import Participant


class FedAvg(WeightedAverage):
    """Weigh each client by its number of examples: w_k = n_k / Σ n."""

    def weigh(
        self, participants: list[Participant]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return n_k / Σ n, and ones for scores."""
        sizes = np.array([p.num_examples for p in participants], np.float64)
        return sizes / sizes.sum(), np.ones(len(sizes))
