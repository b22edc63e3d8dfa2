"""From the key ``strategy`` to a strategy."""

from collections.abc import Collection

from fedeas_app.preparation import Plan
from fedeas_app.settings import Settings
from fedeas_app.strategies.base import WeightedAverage, cohort_size
from fedeas_app.strategies.fedadam import FedAdam
from fedeas_app.strategies.fedalign import FedAlign
from fedeas_app.strategies.fedavg import FedAvg
from fedeas_app.strategies.fedavgm import FedAvgM
from fedeas_app.strategies.fedmedian import FedMedian
from fedeas_app.strategies.fedoui import FedOui
from fedeas_app.strategies.fedoui_fedalign import FedOuiFedAlign
from fedeas_app.strategies.fedprox import FedProx
from fedeas_app.strategies.fedtrimmedavg import FedTrimmedAvg
from fedeas_app.strategies.fedyogi import FedYogi
from fedeas_app.strategies.krum import Krum
from fedeas_app.strategies.moon import Moon
from fedeas_app.strategies.multikrum import MultiKrum
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
    "fedmedian": FedMedian,
    "fedtrimmedavg": FedTrimmedAvg,
    "krum": Krum,
    "multikrum": MultiKrum,
}


def require_enough_clients(settings: Settings, clients: int) -> None:
    """Refuse, before anything is generated, a strategy whose rounds need more than these clients.

    Raises
    ------
    UserError
    """
    rule = STRATEGIES[settings.strategy]
    rule.require_clients(settings, cohort_size(settings, clients))


def make_strategy(
    settings: Settings, plan: Plan, trainable: Collection[str] | None = None
) -> WeightedAverage:
    """Return the strategy that the settings name, for the clients of a plan.

    `trainable` names the model's trainable parameters; every floating-point array if left out.
    """
    return STRATEGIES[settings.strategy](settings, plan, trainable)
