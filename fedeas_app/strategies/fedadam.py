"""FedAdam (Reddi et al., arXiv 2003.00295)."""

from flwr.serverapp.strategy import FedAdam as FlowerFedAdam

from fedeas_app.settings import Settings
from fedeas_app.strategies.fedopt import GivenAverage, ServerStep


class FedAdam(ServerStep):
    """Adam at the server, by Flower's FedAdam.

    m ← β₁m + (1 − β₁)Δ̄,  v ← β₂v + (1 − β₂)Δ̄²,  w ← w + η_t·m/(√v + τ), from m = v = 0.

    Flower corrects the bias of m and v by η_t = η·√(1 − β₂^(t+1)) / (1 − β₁^(t+1)), t from 1;
    the paper takes η itself, and v = τ² at first.
    """

    def flower(self, settings: Settings) -> GivenAverage:
        """Return Flower's FedAdam with η, β₁, β₂ and τ."""
        return _FlowerFedAdam(
            eta=settings.server_step,
            beta_1=settings.server_momentum,
            beta_2=settings.server_decay,
            tau=settings.server_tau,
        )


class _FlowerFedAdam(FlowerFedAdam, GivenAverage):
    pass
