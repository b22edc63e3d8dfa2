"""What the robust rules share: clients count alike, whatever they say of themselves."""

import numpy as np
from numpy.typing import NDArray

from fedeas_app.strategies.base import WeightedAverage
from fedeas_app.strategies.report import Participant


class Unweighted(WeightedAverage):
    """Weigh all clients alike: a number that a client may forge has no say."""

    def weigh(
        self, participants: list[Participant]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return 1/n, and ones for scores."""
        count = len(participants)
        return np.full(count, 1 / count), np.ones(count)
