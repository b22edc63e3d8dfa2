"""What a few seeds say: means with their spread, and differences in pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from scipy.special import stdtrit

CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of n values.

    Attributes
    ----------
    n : int
    mean : float
    std : float or None
        With n − 1 in the denominator; None for a single value, which has none.
    """

    n: int
    mean: float
    std: float | None


@dataclass(frozen=True)
class PairedDifference:
    """What an arm is above its baseline, seed by seed.

    Attributes
    ----------
    n : int
        Seeds that both have.
    mean : float
    standard_error : float or None
        Of the mean; None for a single seed.
    interval : pair of float or None
        Student's 95 % interval of the mean; None for a single seed.
    better : int
        Seeds in which the arm is above its baseline; a tie is not.
    """

    n: int
    mean: float
    standard_error: float | None
    interval: tuple[float, float] | None
    better: int


def spread(values: Sequence[float]) -> Spread | None:
    """Return mean and standard deviation of values; None where there are none."""
    if not values:
        return None
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Spread(len(values), float(np.mean(values)), std)


def paired_difference(
    arm: Mapping[int, float], baseline: Mapping[int, float]
) -> PairedDifference | None:
    """Compare two arms over the seeds that both have; None where there are none.

    Arms that share what describes the data have the same data, partition, first model and cohorts
    within a seed, so that much of the spread over seeds is common to both and falls out of the
    difference. Arms that differ in α or the model, say, share less.

    Parameters
    ----------
    arm, baseline : mapping
        Values by seed.
    """
    differences = [arm[seed] - baseline[seed] for seed in sorted(arm.keys() & baseline.keys())]
    summary = spread(differences)
    if summary is None:
        return None
    better = sum(difference > 0 for difference in differences)
    if summary.std is None:
        return PairedDifference(1, summary.mean, None, None, better)
    error = summary.std / sqrt(summary.n)
    reach = error * float(stdtrit(summary.n - 1, (1 + CONFIDENCE) / 2))
    interval = (summary.mean - reach, summary.mean + reach)
    return PairedDifference(summary.n, summary.mean, error, interval, better)
