"""From the key ``strategy`` to a strategy."""

from collections.abc import Collection

from fedeas_app.preparation import Plan
from fedeas_app.settings import Settings
from fedeas_app.strategies.base import WeightedAverage
from fedeas_app.strategies.fedadam import FedAdam
from fedeas_app.strategies.fedalign import FedAlign
from fedeas_app.strategies.fedavg import FedAvg
from fedeas_app.strategies.fedavgm import FedAvgM
from fedeas_app.strategies.fedoui import FedOui
from fedeas_app.strategies.fedoui_fedalign import FedOuiFedAlign
from fedeas_app.strategies.fedprox import FedProx
from fedeas_app.strategies.fedyogi import FedYogi
from fedeas_app.strategies.moon import Moon
from fedeas_app.strategies.scaffold import Scaffold

STRATEGIES: dict[str, type[WeightedAverage]] = {
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "scaffold": Scaffold,
    "moon": Moon,
    "fedalign": FedAlign,
    "fedoui": FedOui,
    "fedoui-fedalign": FedOuiFedAlign,
    "fedavgm": FedAvgM,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
}


def make_strategy(
    settings: Settings, plan: Plan, trainable: Collection[str] | None = None
) -> WeightedAverage:
    """Return the strategy that the settings name, for the clients of a plan.

    `trainable` names the model's trainable parameters; every floating-point array if left out.
    """
    return STRATEGIES[settings.strategy](settings, plan, trainable)
