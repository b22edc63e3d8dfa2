"""A limit to the length of a client's update."""

from collections.abc import Mapping
from statistics import median
from typing import Literal

MEDIAN: Literal["median"] = "median"
OFF: Literal["off"] = "off"


def factor(norm: float, largest: float) -> float:
    """Return min(1, largest / norm): what brings an update to at most this norm.

    Parameters
    ----------
    norm : float
        ‖Δ‖, not negative.
    largest : float
        Not negative.
    """
    return 1.0 if norm <= largest else largest / norm


def factors(norms: Mapping[int, float], limit: float | Literal["median"]) -> dict[int, float]:
    """Return the factor of each client's update.

    Parameters
    ----------
    norms : mapping of int to float
        ‖Δ_k‖ by partition; at least one.
    limit : float or "median"
        The largest norm; or the median of the round's norms, as a bound that fits itself to the
        round and that fewer than half of the clients cannot move at will (ours).
    """
    largest = median(norms.values()) if limit == MEDIAN else limit
    return {partition: factor(norm, largest) for partition, norm in norms.items()}
