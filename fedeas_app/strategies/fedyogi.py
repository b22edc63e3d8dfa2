"""FedYogi (Reddi et al., arXiv 2003.00295)."""

from flwr.serverapp.strategy import FedYogi as FlowerFedYogi

from fedeas_app.settings import Settings
from fedeas_app.strategies.fedopt import GivenAverage, ServerStep


class FedYogi(ServerStep):
    """Yogi at the server, by Flower's FedYogi.

    m ← β₁m + (1 − β₁)Δ̄,  v ← v − (1 − β₂)Δ̄²·sign(v − Δ̄²),  w ← w + η·m/(√v + τ), from m = v = 0
    (the paper starts from v = τ²).
    """

    def flower(self, settings: Settings) -> GivenAverage:
        """Return Flower's FedYogi with η, β₁, β₂ and τ."""
        return _FlowerFedYogi(
            eta=settings.server_step,
            beta_1=settings.server_momentum,
            beta_2=settings.server_decay,
            tau=settings.server_tau,
        )


class _FlowerFedYogi(FlowerFedYogi, GivenAverage):
    pass
