"""FedProx (Li et al., arXiv 1812.06127)."""

from fedeas_app.strategies.fedavg import FedAvg


class FedProx(FedAvg):
    """Weigh as FedAvg does; clients add (μ/2)·‖w − w_t‖² to their loss.

    The other strategies take the same term where ``proximal-mu`` is set.
    """
