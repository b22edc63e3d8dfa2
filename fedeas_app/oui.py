"""OUI, a label-free look at a client's model, and the aggregation weights that follow from it.

FedOUI ("FedOUI: OUI-Guided Client Weighting for Federated Aggregation", arXiv 2605.11571): each
client measures how evenly its hidden units split a probe batch; the server fits a Beta
distribution to the round's values and lowers the weight of clients far out in either tail.
"""

import warnings
from typing import Final, Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, xlogy

FloatArray = NDArray[np.float64]

# A Beta density has no mass at 0 and 1, so values are moved inside: further for the fit, which a
# single value at the edge would dominate, than for the distribution function.
FIT_EDGE: Final = 1e-3
CDF_EDGE: Final = 1e-4
# Beyond this concentration (a spread below 3e-8, mere rounding) the incomplete beta function
# returns nan or noise, so such a fit counts as none (ours).
MAX_KAPPA: Final = 1e15


class BetaFit(NamedTuple):
    """A Beta(alpha, beta) distribution on [0, 1] and how it was fitted."""

    alpha: float
    beta: float
    method: Literal["moments", "likelihood"]


def oui(preactivations: ArrayLike) -> float:
    """Return the OUI of one layer on a probe batch: how evenly its units split the batch.

    Parameters
    ----------
    preactivations : array_like, shape (B, d) or (B, ...)
        z_ij, the layer's values before its activation function; trailing axes are flattened.

    Returns
    -------
    float
        In [0, 1]: 1 when every unit is on for half of the batch, 0 when every unit is always on
        or always off. A batch of fewer than 2 samples gives 0.0.

    Raises
    ------
    ValueError
        If there is no batch axis and unit axis, no unit, or a value that is not finite.

    Notes
    -----
    FedOUI, arXiv 2605.11571: OUI = (1/d) sum_j u_j / floor(B/2), u_j = min(s_j, B - s_j), with s_j
    the samples that turn unit j on.
    """
    z = np.asarray(preactivations)
    if z.ndim < 2 or 0 in z.shape[1:]:
        raise ValueError(f"preactivations must be (samples, units) with units, got {z.shape}.")
    if not np.isfinite(z).all():
        raise ValueError("preactivations must be finite, got nan or infinity.")
    batch = len(z)
    if batch < 2:
        return 0.0
    on = np.count_nonzero(z > 0, axis=0)
    return float(np.minimum(on, batch - on).mean() / (batch // 2))


def fit_beta(values: ArrayLike) -> BetaFit | None:
    """Fit a Beta distribution to the OUI values of one round.

    By moments (with the unbiased variance); by maximum likelihood where these are not valid.

    Parameters
    ----------
    values : array_like, shape (n,)
        OUI of the round's participants, in [0, 1].

    Returns
    -------
    BetaFit or None
        None if no Beta distribution can be fitted, as when all values are equal.

    Raises
    ------
    ValueError
        If `values` is empty, not 1-D, or outside [0, 1].

    Notes
    -----
    FedOUI, arXiv 2605.11571: kappa = m (1 - m) / v - 1, alpha = m kappa, beta = (1 - m) kappa.
    """
    o = np.clip(_as_oui(values), FIT_EDGE, 1.0 - FIT_EDGE)
    if o.min() == o.max():  # one value or ties: no likelihood has a maximum either
        return None
    return _fit_moments(o) or _fit_likelihood(o)


def scores(values: ArrayLike, reference: ArrayLike | None = None) -> FloatArray:
    """Return s_k = 2 min{F(o_k), 1 - F(o_k)}, how central each client is among its round.

    F is the distribution function of the fitted Beta, or rank / (n + 1) without a fit. Ranks are
    those of the values as they came: what only the fit's clipping made equal is no tie (ours).

    Parameters
    ----------
    values : array_like, shape (n,)
        OUI of the round's participants, in [0, 1].
    reference : array_like, shape (m,), optional
        The values that F is fitted to, `values` among them: those of several rounds (FedOUI names
        it as future work; ours). `values` themselves if left out, as published.

    Returns
    -------
    ndarray, shape (n,)
        1 at the median, towards 0 in either tail; all ones for one client or equal values.

    Raises
    ------
    ValueError
        If `values` is empty, not 1-D, or outside [0, 1].

    Notes
    -----
    FedOUI, arXiv 2605.11571, the two-sided tail score.
    """
    o = _as_oui(values)
    among = o if reference is None else _as_oui(reference)
    if among.min() == among.max():
        return np.ones_like(o)
    fit = fit_beta(among)
    p = _mid_ranks(o, among) if fit is None else _cdf(o, fit)
    return 2.0 * np.minimum(p, 1.0 - p)


def smooth(value: float, previous: float | None, keep: float) -> float:
    """Return the exponential running mean of a client's OUI over its rounds (ours).

    Parameters
    ----------
    value : float
        OUI of this round.
    previous : float or None
        The running mean before it; None at a client's first round.
    keep : float
        The weight of `previous`, in [0, 1); 0 gives `value`.

    Notes
    -----
    FedOUI, arXiv 2605.11571, names temporal smoothing as future work.
    """
    return value if previous is None else keep * previous + (1.0 - keep) * value


def aggregation_weights(
    num_examples: ArrayLike,
    values: ArrayLike,
    *,
    epsilon: float = 1e-3,
    rho: float = 1.0,
    gamma: float = 1.0,
) -> FloatArray:
    """Return w_k, proportional to n_k^rho (s_k + epsilon)^gamma (FedOUI, arXiv 2605.11571).

    Parameters
    ----------
    num_examples : array_like, shape (n,)
        n_k, the samples behind each update; at least one is positive.
    values : array_like, shape (n,)
        OUI of the same clients, in [0, 1].
    epsilon : float
        Above 0: what a client in the far tail keeps.
    rho, gamma : float
        Exponents of size and score, at least 0.

    Returns
    -------
    ndarray, shape (n,)
        Of sum 1.

    Raises
    ------
    ValueError
        If an argument is out of range or lengths differ.
    """
    return combine(num_examples, scores(values), epsilon=epsilon, rho=rho, gamma=gamma)


def combine(
    num_examples: ArrayLike,
    typicality: ArrayLike,
    *,
    epsilon: float = 1e-3,
    rho: float = 1.0,
    gamma: float = 1.0,
    factors: ArrayLike = 1.0,
) -> FloatArray:
    """Return w_k, proportional to n_k^rho (s_k + epsilon)^gamma, times another factor (ours).

    Parameters
    ----------
    num_examples : array_like, shape (n,)
        n_k, the samples behind each update; at least one is positive.
    typicality : array_like, shape (n,)
        s_k of the same clients, as `scores` returns them.
    epsilon, rho, gamma : float
    factors : array_like, shape (n,) or ()
        What each weight is multiplied by, above 0.

    Returns
    -------
    ndarray, shape (n,)
        Of sum 1.

    Raises
    ------
    ValueError
        If an argument is out of range or lengths differ.
    """
    _check_exponents(epsilon, rho, gamma)
    n, s = _as_sizes(num_examples), np.asarray(typicality, dtype=np.float64)
    if len(n) != len(s):
        raise ValueError(f"num_examples and values must match, got {len(n)} and {len(s)} clients.")
    # In logarithms no exponent can overflow, nor make every weight vanish.
    log_w = xlogy(rho, n) + xlogy(gamma, s + epsilon) + np.log(factors)
    w: FloatArray = np.exp(log_w - log_w.max())
    w /= w.sum()
    return w


def _fit_moments(o: FloatArray) -> BetaFit | None:
    m, v = float(o.mean()), float(o.var(ddof=1))
    kappa = m * (1.0 - m) / v - 1.0 if v > 0 else 0.0
    return _valid(BetaFit(m * kappa, (1.0 - m) * kappa, "moments"))


def _fit_likelihood(o: FloatArray) -> BetaFit | None:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            # Through `scipy.stats`, loaded on first use: importing it takes a second.
            alpha, beta, _, _ = scipy.stats.beta.fit(o, floc=0, fscale=1)
    except (RuntimeError, ValueError, ArithmeticError):  # scipy's fit errors are among these
        return None
    return _valid(BetaFit(float(alpha), float(beta), "likelihood"))


def _valid(fit: BetaFit) -> BetaFit | None:
    usable = fit.alpha > 0 and fit.beta > 0 and fit.alpha + fit.beta <= MAX_KAPPA
    return fit if usable else None


def _cdf(o: FloatArray, fit: BetaFit) -> FloatArray:
    inside = np.clip(o, CDF_EDGE, 1.0 - CDF_EDGE)
    p: FloatArray = betainc(fit.alpha, fit.beta, inside)
    return p


def _mid_ranks(o: FloatArray, among: FloatArray) -> FloatArray:
    """Return each value's rank among all, ties averaged, from 1, over their number plus one."""
    ordered = np.sort(among)
    below, upto = (np.searchsorted(ordered, o, side) for side in ("left", "right"))
    p: FloatArray = (below + upto + 1) / 2 / (len(among) + 1)
    return p


def _as_oui(values: ArrayLike) -> FloatArray:
    o = np.asarray(values, dtype=np.float64)
    if o.ndim != 1 or o.size == 0:
        raise ValueError(f"OUI values must be 1-D with at least one client, got shape {o.shape}.")
    bad = ~((o >= 0) & (o <= 1))  # also true for nan
    if bad.any():
        k = int(bad.argmax())
        raise ValueError(f"OUI values must lie in [0, 1], got {o[k]} for client {k}.")
    return o


def _as_sizes(num_examples: ArrayLike) -> FloatArray:
    n = np.asarray(num_examples, dtype=np.float64)
    if n.ndim != 1:
        raise ValueError(f"num_examples must be 1-D, got shape {n.shape}.")
    bad = ~(np.isfinite(n) & (n >= 0))
    if bad.any():
        k = int(bad.argmax())
        raise ValueError(f"num_examples must be finite and at least 0, got {n[k]} for client {k}.")
    if not n.any():
        raise ValueError("num_examples must be positive for at least one client, got only 0.")
    return n


def _check_exponents(epsilon: float, rho: float, gamma: float) -> None:
    if not 0 < epsilon < np.inf:
        raise ValueError(f"epsilon must be finite and above 0, got {epsilon!r}.")
    for name, value in (("rho", rho), ("gamma", gamma)):
        if not 0 <= value < np.inf:
            raise ValueError(f"{name} must be finite and at least 0, got {value!r}.")
