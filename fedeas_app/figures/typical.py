"""What the OUI-Beta rule sees in a round, read back from a record: numbers, no drawing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedeas_app.oui import BetaFit, fit_beta, scores
from fedeas_app.runs.reading import Run

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Weighed:
    """The participants of a round as the rule saw them, each array of shape (n,).

    Attributes
    ----------
    server_round : int
    values : array
        OUI, smoothed where the run smooths it.
    scores : array
        s_k, as recorded.
    factors : array
        The weight over the client's share of the samples, w_k Σ n / n_k: 1 as in FedAvg.
    """

    server_round: int
    values: FloatArray
    scores: FloatArray
    factors: FloatArray


@dataclass(frozen=True)
class Rule:
    """What a round's values are judged by.

    Attributes
    ----------
    reference : array, shape (m,)
        The values of the last ``oui-window`` rounds.
    fit : BetaFit or None
        None where ranks took its place, or where there was nothing to tell apart.
    """

    reference: FloatArray
    fit: BetaFit | None

    @property
    def alike(self) -> bool:
        """Whether one value or equal values leave no tail, so that every score is 1."""
        return bool(self.reference.min() == self.reference.max())

    def curve(self, grid: FloatArray) -> FloatArray:
        """Return the score that a client of each OUI would get, in the shape of `grid`."""
        return scores(grid, self.reference)


def weighed(run: Run) -> list[Weighed]:
    """Return every round that has participants with an OUI, in order."""
    lines = [line for line in run.trained if line.get("participants")]
    return [_weighed(line["round"], line["participants"]) for line in lines]


def rule(rounds: Sequence[Weighed], window: int) -> Rule:
    """Return what the last of some rounds is judged by.

    Parameters
    ----------
    rounds : sequence of Weighed
        Up to the round of interest; at least one.
    window : int
        ``oui-window``.
    """
    reference = np.concatenate([each.values for each in rounds[-window:]])
    return Rule(reference, fit_beta(reference))


def _weighed(server_round: int, participants: Sequence[Mapping[str, Any]]) -> Weighed:
    sizes, weights, judged = (
        np.array([p[key] for p in participants], dtype=np.float64)
        for key in ("num-examples", "weight", "score")
    )
    values = np.array([p.get("oui-smoothed", p["oui"]) for p in participants], dtype=np.float64)
    share = sizes / sizes.sum()
    factors = np.divide(weights, share, out=np.zeros_like(share), where=share > 0)
    return Weighed(server_round, values, judged, factors)
