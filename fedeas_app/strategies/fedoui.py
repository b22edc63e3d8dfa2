"""FedOUI ("OUI-Guided Client Weighting for Federated Aggregation", arXiv 2605.11571)."""

import numpy as np
from numpy.typing import NDArray

from fedeas_app import oui
from fedeas_app.strategies.base import Participant, WeightedAverage


class FedOui(WeightedAverage):
    """Weigh typical clients up: w_k = n_k^ρ·(s_k + ε)^γ / Σ.

    s_k is how central the client's OUI is in a Beta distribution fitted to the round's values.
    """

    def weigh(
        self, participants: list[Participant]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the OUI-Beta weights and the scores s_k."""
        values = [p.oui for p in participants]
        weights = oui.aggregation_weights(
            [p.num_examples for p in participants],
            values,
            epsilon=self.settings.oui_epsilon,
            rho=self.settings.oui_rho,
            gamma=self.settings.oui_gamma,
        )
        return weights, oui.scores(values)
