"""SCAFFOLD (Karimireddy et al., arXiv 1910.06378)."""

from collections.abc import Collection
from typing import ClassVar

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from fedeas_app.preparation import Plan
from fedeas_app.settings import Settings
from fedeas_app.strategies.fedavg import FedAvg
from fedeas_app.strategies.report import Participant
from fedeas_app.strategies.state import StrategyState
from fedeas_app.strategies.updates import Updates


class Scaffold(FedAvg):
    """Send the control variate c beside the model, and add what clients return to it.

    With p_k the share of client k among all K, whether or not they take part,

        c ← c + Σ_{k in S} p_k (c_k⁺ − c_k)

    over the clients S whose replies count, so that c stays Σ_k p_k c_k, also when replies are
    lost or clients come later: a client goes on from the state of its last reply that counted.

    The paper counts clients alike: p_k = 1/K, so that c moves by (|S|/K)·mean(c_k⁺ − c_k)
    and models are averaged alike (``scaffold-weights = "clients"``). Here p_k = n_k / N for both by
    default (ours), as for the strategies it is compared with. Models by n_k and variates alike
    would not go together: the corrections c − c_k would not cancel in the average.
    """

    has_state: ClassVar[bool] = True

    def __init__(
        self, settings: Settings, plan: Plan, trainable: Collection[str] | None = None
    ) -> None:
        super().__init__(settings, plan, trainable)
        # Σ n_k c_k rather than c: clients that come later change N, and so every share.
        self._sum = ArrayRecord()

    def weigh(
        self, participants: list[Participant]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return n_k / Σ n or, with clients alike, 1 / |S|; and ones for scores."""
        if self.settings.scaffold_weights == "examples":
            return super().weigh(participants)
        count = len(participants)
        return np.full(count, 1 / count), np.ones(count)

    def extras(self) -> ArrayRecord:
        """Return c: zeros at first, one array for each trainable parameter."""
        size = sum(self._sizes().values())
        sums = {name: array.numpy() for name, array in self._sum.items()}
        return ArrayRecord(
            {
                name: Array(np.asarray(sums.get(name, np.zeros_like(w)) / size, w.dtype))
                for name, w in self.parameters().items()
            }
        )

    def take(self, extras: Updates, partitions: list[int]) -> None:
        """Add the changes of the clients' variates."""
        sizes = self._sizes()
        part = sum(sizes[k] for k in partitions)
        mean = extras.average({k: sizes[k] / part for k in partitions})
        self._sum = ArrayRecord(
            {name: _moved(self._sum.get(name), part, change) for name, change in mean.items()}
        )

    def state(self) -> StrategyState:
        """Add the sum behind c, once there is one."""
        return super().state()._replace(arrays=self._sum)

    def restore(self, state: StrategyState) -> None:
        """Take the sum back."""
        super().restore(state)
        self._sum = state.arrays

    def _sizes(self) -> dict[int, int]:
        """Return what p_k is the share of: n_k of all clients, or 1 each."""
        alike = self.settings.scaffold_weights == "clients"
        return dict.fromkeys(self.plan.nodes, 1) if alike else self.declared()


def _moved(total: Array | None, size: int, change: Array) -> Array:
    moved = size * change.numpy().astype(np.float64)
    return Array(moved if total is None else total.numpy() + moved)
