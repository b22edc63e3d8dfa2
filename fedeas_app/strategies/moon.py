"""MOON (Li et al., arXiv 2103.16257)."""

from typing import ClassVar

from fedeas_app.strategies.fedavg import FedAvg


class Moon(FedAvg):
    """Weigh as FedAvg does; clients contrast representations and keep their last model."""

    has_state: ClassVar[bool] = True
