"""SCAFFOLD (Karimireddy et al., arXiv 1910.06378)."""

from typing import ClassVar

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from fedeas_app.strategies.fedavg import FedAvg
from fedeas_app.strategies.report import Participant
from fedeas_app.strategies.state import StrategyState
from fedeas_app.strategies.updates import Updates


class Scaffold(FedAvg):
    """Send the control variate c beside the model, and add what clients return to it.

    With p_k the share of client k among all K, whether or not they take part,

        c ← c + Σ_{k in S} p_k (c_k⁺ − c_k)

    over the clients S whose replies count, so that c stays Σ_k p_k c_k, also when replies are
    lost: a client goes on from the state of its last reply that counted.

    The paper counts clients alike: p_k = 1/K, so that c moves by (|S|/K)·mean(c_k⁺ − c_k)
    and models are averaged alike (``scaffold-weights = "clients"``). Here p_k = n_k / N for both by
    default (ours), as for the strategies it is compared with. Models by n_k and variates alike
    would not go together: the corrections c − c_k would not cancel in the average.
    """

    has_state: ClassVar[bool] = True
    _c: ArrayRecord | None = None

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
        if self._c is None:
            zeros = {name: np.zeros_like(array) for name, array in self.parameters().items()}
            self._c = ArrayRecord({name: Array(zero) for name, zero in zeros.items()})
        return self._c

    def take(self, extras: Updates, partitions: list[int]) -> None:
        """Move c by the changes of the clients' variates."""
        p = self._shares()
        taking_part = sum(p[k] for k in partitions)
        mean = extras.average({k: p[k] / taking_part for k in partitions})
        self._c = ArrayRecord(
            {name: _moved(c, taking_part, mean[name]) for name, c in self.extras().items()}
        )

    def state(self) -> StrategyState:
        """Add c, once there is one."""
        return super().state()._replace(arrays=self._c or ArrayRecord())

    def restore(self, state: StrategyState) -> None:
        """Take c back."""
        super().restore(state)
        self._c = state.arrays or None

    def _shares(self) -> dict[int, float]:
        """Return p_k of all clients; they sum to 1."""
        if self.settings.scaffold_weights == "clients":
            return dict.fromkeys(self.plan.nodes, 1 / len(self.plan.nodes))
        both = self.settings.weight_by == "total"
        sizes = {
            client.partition_id: client.num_examples + both * client.synthetic
            for client in self.plan.clients
        }
        return {partition: size / sum(sizes.values()) for partition, size in sizes.items()}


def _moved(c: Array, share: float, change: Array) -> Array:
    old = c.numpy()
    return Array(np.asarray(old + share * change.numpy(), old.dtype))
