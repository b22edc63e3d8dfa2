"""FedAvgM (Hsu et al., arXiv 1909.06335)."""

from typing import Any

from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import FedAvgM as FlowerFedAvgM

from fedeas_app.settings import Settings
from fedeas_app.strategies.fedopt import GivenAverage, ServerStep


class FedAvgM(ServerStep):
    """Momentum at the server, by Flower's FedAvgM: v ← βv − Δ̄, w ← w − ηv."""

    _flower: "_FlowerFedAvgM"

    def flower(self, settings: Settings) -> GivenAverage:
        """Return Flower's FedAvgM with η and β."""
        return _FlowerFedAvgM(
            server_learning_rate=settings.server_step, server_momentum=settings.server_momentum
        )

    def as_flower_keeps_it(self, parameters: dict[str, Any]) -> ArrayRecord:
        """Return the global parameters as a record."""
        return ArrayRecord({name: Array(values) for name, values in parameters.items()})

    def moments(self) -> dict[str, Any]:
        """Return v, which Flower's FedAvgM keeps without names, in the parameters' order."""
        return {str(n): values for n, values in enumerate(self._flower.momentum_vector or [])}

    def remember(self, moments: dict[str, Any]) -> None:
        """Do the opposite."""
        self._flower.momentum_vector = list(moments.values()) or None


class _FlowerFedAvgM(FlowerFedAvgM, GivenAverage):
    pass
