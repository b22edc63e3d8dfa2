"""FedOUI and FedAlign together (ours): both factors in one weight."""

import numpy as np
from numpy.typing import NDArray

from fedeas_app.strategies.fedalign import agreements, with_agreement
from fedeas_app.strategies.fedoui import FedOui
from fedeas_app.strategies.report import Participant
from fedeas_app.strategies.updates import Updates


class FedOuiFedAlign(FedOui):
    """Weigh typical clients that agree with the others up: w_k ∝ n_k^ρ·(s_k + ε)^γ·(a_k + ε').

    The product of both published factors, each with its own ε: ``oui-epsilon`` and
    ``align-epsilon``. A client keeps its weight only where neither speaks against it. The score in
    the record is s_k; a_k stands beside it.
    """

    def examine(self, participants: list[Participant], models: Updates) -> list[Participant]:
        """Add the agreement a_k to what FedOUI finds out."""
        return super().examine(with_agreement(participants, models, self.trainable), models)

    def factors(self, participants: list[Participant]) -> NDArray[np.float64]:
        """Return a_k + ε'."""
        return agreements(participants) + self.settings.align_epsilon
