"""How private Gaussian noise is: ε at a given δ, exactly.

A release adds noise of z times the most that one client can change it (its sensitivity). Which
clients take part follows from the run's seed, which all know, so that no client is hidden by not
being drawn: nothing is gained from sampling, and m releases are worth as much as a single one with
μ = √m / z. For these two facts and the formula no approximation is needed:

* Balle, Wang: "Improving the Gaussian Mechanism for Differential Privacy: Analytical Calibration
  and Optimal Denoising", arXiv 1805.06530, theorem 8;
* Dong, Roth, Su: "Gaussian Differential Privacy", arXiv 1905.02383, corollaries 2.13 and 3.3.
"""

import math

import scipy
from scipy.special import log_ndtr, ndtr


def delta_of(epsilon: float, mu: float) -> float:
    """Return δ(ε) = Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2).

    Parameters
    ----------
    epsilon : float
        At least 0.
    mu : float
        Above 0.
    """
    below = float(log_ndtr(-epsilon / mu - mu / 2))
    return float(ndtr(-epsilon / mu + mu / 2)) - math.exp(epsilon + below)


def epsilon_of(releases: int, noise_multiplier: float, delta: float) -> float:
    """Return the smallest ε for which all releases together are (ε, δ)-differentially private.

    Parameters
    ----------
    releases : int
        m, how many a client took part in.
    noise_multiplier : float
        z, the noise's standard deviation in units of the sensitivity.
    delta : float
        In (0, 1).
    """
    mu = math.sqrt(releases) / noise_multiplier
    if releases == 0 or delta_of(0, mu) <= delta:
        return 0.0
    highest = 1.0
    while delta_of(highest, mu) > delta:
        highest *= 2
    # Through `scipy.optimize`, loaded on first use: most runs need no ε.
    root = scipy.optimize.brentq(lambda e: delta_of(e, mu) - delta, 0, highest, xtol=1e-9)
    return float(root)
