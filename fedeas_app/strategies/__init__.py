"""How the server weighs its clients: one file per rule, on one base."""

from fedeas_app.strategies.base import WeightedAverage
from fedeas_app.strategies.registry import make_strategy, require_enough_clients

__all__ = ["WeightedAverage", "make_strategy", "require_enough_clients"]
