"""What a strategy knows beside the global model, in a form that can be kept in a file."""

from typing import Any, NamedTuple

from flwr.app import ArrayRecord


class StrategyState(NamedTuple):
    """A strategy between two rounds.

    Attributes
    ----------
    arrays : ArrayRecord
        Such as SCAFFOLD's c, or the moments of FedAdam.
    values : dict
        The rest, as JSON holds it: keys are text.
    """

    arrays: ArrayRecord
    values: dict[str, Any]
