"""FedOUI ("OUI-Guided Client Weighting for Federated Aggregation", arXiv 2605.11571)."""

from collections import deque
from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedeas_app import oui
from fedeas_app.preparation import Plan
from fedeas_app.settings import Settings
from fedeas_app.strategies.base import WeightedAverage
from fedeas_app.strategies.report import Participant
from fedeas_app.strategies.state import StrategyState
from fedeas_app.strategies.updates import Updates

_SMOOTHED = "oui-smoothed"


class FedOui(WeightedAverage):
    """Weigh typical clients up: w_k = n_k^ρ·(s_k + ε)^γ / Σ.

    s_k is how central the client's OUI is in a Beta distribution fitted to the round's values; or,
    as options that the paper only looks ahead to, to those of the last rounds (``oui-window``), or
    to each client's running mean (``oui-smoothing``).
    """

    def __init__(
        self, settings: Settings, plan: Plan, trainable: Collection[str] | None = None
    ) -> None:
        super().__init__(settings, plan, trainable)
        self._smoothed: dict[int, float] = {}
        self._window: deque[list[float]] = deque(maxlen=settings.oui_window)

    def examine(self, participants: list[Participant], models: Updates) -> list[Participant]:
        """Smooth each client's OUI, if asked to, and remember the round's values."""
        keep = self.settings.oui_smoothing
        if keep:
            participants = [self._smooth(p, keep) for p in participants]
        self._window.append([_value(p) for p in participants])
        return participants

    def weigh(
        self, participants: list[Participant]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the OUI-Beta weights and the scores s_k."""
        values = [_value(p) for p in participants]
        scores = oui.scores(values, [o for past in self._window for o in past] or values)
        weights = oui.combine(
            [p.num_examples for p in participants],
            scores,
            epsilon=self.settings.oui_epsilon,
            rho=self.settings.oui_rho,
            gamma=self.settings.oui_gamma,
            factors=self.factors(participants),
        )
        return weights, scores

    def factors(self, participants: list[Participant]) -> NDArray[np.float64]:
        """Return what else multiplies the weights, shape (n,): ones."""
        return np.ones(len(participants))

    def state(self) -> StrategyState:
        """Add the window's values and the running means."""
        smoothed = {str(partition): value for partition, value in self._smoothed.items()}
        more = {"oui-window": list(self._window), "oui-smoothed": smoothed}
        state = super().state()
        return state._replace(values=state.values | more)

    def restore(self, state: StrategyState) -> None:
        """Take both back."""
        super().restore(state)
        self._window.extend(state.values["oui-window"])
        self._smoothed = {int(k): value for k, value in state.values["oui-smoothed"].items()}

    def _smooth(self, participant: Participant, keep: float) -> Participant:
        partition = participant.partition
        value = oui.smooth(participant.oui, self._smoothed.get(partition), keep)
        self._smoothed[partition] = value
        return replace(participant, details=participant.details | {_SMOOTHED: value})


def _value(participant: Participant) -> float:
    return participant.details.get(_SMOOTHED, participant.oui)
