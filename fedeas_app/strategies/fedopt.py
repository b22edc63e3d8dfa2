"""A server that takes a step of its own along the clients' average, as Flower implements it."""

from abc import abstractmethod
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord
from flwr.serverapp.strategy import FedAvg as FlowerFedAvg

from fedeas_app.errors import UserError
from fedeas_app.preparation import Plan
from fedeas_app.settings import Settings
from fedeas_app.strategies.fedavg import FedAvg
from fedeas_app.strategies.state import StrategyState

_MOMENTS = ("m_t", "v_t")  # as Flower's FedOpt names them


class GivenAverage(FlowerFedAvg):
    """In the place of Flower's FedAvg below one of its strategies: the average is given.

    Attributes
    ----------
    average : ArrayRecord
        What the next call of ``aggregate_train`` starts from, whatever the replies.
    current_arrays : Any
        The global model, in the form that the strategy above keeps it in.
    """

    average = ArrayRecord()
    current_arrays: Any = None

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the average that was given."""
        return self.average, None


class ServerStep(FedAvg):
    """FedAvg's average, then the server step of one of Flower's strategies.

    Flower's strategy never sees a client: it is handed our average, so that its state (momentum,
    second moment) and its equations are used and nothing else of it. The trainable parameters alone
    take the step; buffers are averaged.
    """

    def __init__(
        self, settings: Settings, plan: Plan, trainable: Collection[str] | None = None
    ) -> None:
        super().__init__(settings, plan, trainable)
        self._flower = self.flower(settings)

    def state(self) -> StrategyState:
        """Add the moments, once there are any."""
        arrays = {name: Array(np.asarray(moment)) for name, moment in self.moments().items()}
        return super().state()._replace(arrays=ArrayRecord(arrays))

    def restore(self, state: StrategyState) -> None:
        """Give the moments back to Flower's strategy."""
        super().restore(state)
        self.remember({name: array.numpy() for name, array in state.arrays.items()})

    def moments(self) -> dict[str, Any]:
        """Return what Flower's strategy keeps from step to step: m and v of each parameter."""
        return {
            f"{moment}/{name}": values
            for moment in _MOMENTS
            for name, values in (getattr(self._flower, moment) or {}).items()
        }

    def remember(self, moments: dict[str, Any]) -> None:
        """Do the opposite."""
        for moment in _MOMENTS:
            head = f"{moment}/"
            of_it = {n.removeprefix(head): m for n, m in moments.items() if n.startswith(head)}
            setattr(self._flower, moment, of_it or None)

    @abstractmethod
    def flower(self, settings: Settings) -> GivenAverage:
        """Return Flower's strategy with the settings' numbers."""

    def step(self, server_round: int, arrays: ArrayRecord) -> ArrayRecord:
        """Return the global model after the server's step.

        Raises
        ------
        UserError
            The step led to values that are not finite.
        """
        old = self.parameters()
        self._flower.current_arrays = self.as_flower_keeps_it(old)
        self._flower.average = ArrayRecord({name: arrays[name] for name in old})
        stepped, _ = self._flower.aggregate_train(server_round, [])
        # Flower's factors are float64 and so is what it returns; the model keeps its type.
        new = {name: np.asarray(a.numpy(), old[name].dtype) for name, a in (stepped or {}).items()}
        if not all(np.isfinite(array).all() for array in new.values()):
            raise UserError(
                f"The server's step of round {server_round} gave values that are not finite; "
                f"set server-learning-rate below {self.settings.server_step:g}."
            )
        return ArrayRecord({n: Array(new[n]) if n in new else a for n, a in arrays.items()})

    def as_flower_keeps_it(self, parameters: dict[str, Any]) -> Any:
        """Return the global parameters in the form of Flower's strategy: a dict."""
        return parameters
