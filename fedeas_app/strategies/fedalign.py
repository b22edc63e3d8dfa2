"""FedAlign as FedOUI's paper has it: weights by agreement of the updates.

"OUI-Guided Client Weighting for Federated Aggregation" (arXiv 2605.11571) compares itself with a
server-side rule that it calls FedAlign. It is not the method of that name of CVPR 2022, which
regularises local training.
"""

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedeas_app.strategies.fedavg import FedAvg
from fedeas_app.strategies.report import Participant
from fedeas_app.strategies.updates import Updates


class FedAlign(FedAvg):
    """Weigh by agreement with the mean update: w_k = n_k·(a_k + ε) / Σ.

    a_k = max(0, cos(Δ_k, Δ̄)), Δ_k what training did to the trainable parameters, Δ̄ the mean of
    these, weighted by n_k.
    """

    def examine(self, participants: list[Participant], models: Updates) -> list[Participant]:
        """Add the agreement a_k."""
        return with_agreement(participants, models, self.trainable)

    def weigh(
        self, participants: list[Participant]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the weights, and a_k as scores."""
        sizes = np.array([p.num_examples for p in participants], np.float64)
        a = agreements(participants)
        weights = sizes * (a + self.settings.align_epsilon)
        return weights / weights.sum(), a


def with_agreement(
    participants: list[Participant], models: Updates, names: Collection[str]
) -> list[Participant]:
    """Return the participants with a_k, measured over these arrays of their models."""
    total = sum(p.num_examples for p in participants)
    shares = {p.partition: p.num_examples / total for p in participants}
    cosines = models.spread(shares, names).cosines()
    return [
        replace(p, details=p.details | {"agreement": max(0.0, cosines[p.partition])})
        for p in participants
    ]


def agreements(participants: list[Participant]) -> NDArray[np.float64]:
    """Return a_k of the participants, shape (n,)."""
    return np.array([p.details["agreement"] for p in participants], np.float64)
