"""From the key ``strategy`` to a strategy."""

from fedeas_app.preparation import Plan
from fedeas_app.settings import Settings
from fedeas_app.strategies.base import WeightedAverage
from fedeas_app.strategies.fedavg import FedAvg
from fedeas_app.strategies.fedoui import FedOui

STRATEGIES: dict[str, type[WeightedAverage]] = {"fedavg": FedAvg, "fedoui": FedOui}


def make_strategy(settings: Settings, plan: Plan) -> WeightedAverage:
    """Return the strategy that the settings name, for the clients of a plan."""
    return STRATEGIES[settings.strategy](settings, plan)
