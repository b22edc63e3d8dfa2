"""How many synthetic samples, of which classes, each client makes.

FedEAS (Federated Entropy-Adaptive Synthesis; "WHERE to Generate Matters: Budget-Aware Synthetic
Augmentation for Label Skewed Federated Learning") and the policies it is compared with. Only
label counts go in: ``counts[k, c]`` is n_k^c, the real samples of class c at client k, with one
column for every class of the problem, also those a client lacks.

Policies that spend a given total T work on two levels, because counts stay at the clients: each
client reports one number (`share_weights`), the server splits T (`client_shares`), and each client
splits its share over its classes (`spread`). `allocate` is the same three steps on all clients.
"""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

TotalPolicy = Literal["uniform", "size-proportional", "missing-only"]
Policy = Literal[
    "none",
    "fedeas",
    "full",
    "uniform",
    "size-proportional",
    "missing-only",
    "fedeas-no-entropy",
    "fedeas-linear",
]
POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)
TOTAL_POLICIES: Final[tuple[TotalPolicy, ...]] = get_args(TotalPolicy)

DEFAULT_BETA: Final = 12.0
MIN_REMOVED: Final = 0.5  # the selection rule: at least this share of the imbalance goes ...
MAX_SYNTHETIC: Final = 0.25  # ... while synthetic samples stay below this share of all samples
MAX_AUTO_BETA: Final = 1_000

# Above this, float64 no longer holds every whole number, and sums of budgets could wrap in int64.
MAX_SAMPLES: Final = 2**53
# sqrt(25) * 1 * 12 can come out as 59.999...: lift a product by far less than any real difference.
_FLOOR_TOLERANCE: Final = 1e-12


def normalised_entropy(counts: ArrayLike) -> FloatArray:
    """Return H~_k = H_k / ln C, how evenly each client's samples cover the classes.

    C is ``counts.shape[1]``, the global number of classes. A client without samples and a problem
    with a single class get 1.0, so that their budget is 0 (ours).

    Parameters
    ----------
    counts : array_like, shape (K, C)
        Real samples per client and class.

    Returns
    -------
    ndarray, shape (K,)
        0 for a client with one class, exactly 1 for a balanced one.

    Raises
    ------
    ValueError
        If `counts` is not a 2-D array of whole, finite, non-negative numbers.

    Notes
    -----
    FedEAS, the normalised label entropy, with 0 ln 0 = 0.
    """
    return _entropy(_as_counts(counts))


def client_imbalance(counts: ArrayLike) -> FloatArray:
    """Return 1 - H~_k per client, shape (K,): 0 is balanced, 1 is a single class.

    Takes what `normalised_entropy` takes and raises what it raises.
    """
    return 1.0 - normalised_entropy(counts)


def imbalance(counts: ArrayLike) -> float:
    """Return the imbalance score I = sum_k (M_k / M) (1 - H~_k) (ours).

    Parameters
    ----------
    counts : array_like, shape (K, C)
        Real samples, or real plus synthetic for the score after augmentation.

    Returns
    -------
    float
        In [0, 1]; 0.0 when there are no samples at all.

    Raises
    ------
    ValueError
        If `counts` is not a 2-D array of whole, finite, non-negative numbers.
    """
    clean = _as_counts(counts)
    samples = int(clean.sum())
    return _skew(clean) / samples if samples else 0.0


def per_class_budget(counts: ArrayLike, beta: float = DEFAULT_BETA) -> IntArray:
    """Return b_k = floor(sqrt(N_k / C) (1 - H~_k) beta), the fill level of each client's classes.

    Parameters
    ----------
    counts : array_like, shape (K, C)
        Real samples per client and class.
    beta : float
        Strength of the augmentation, one value for all clients; 0 turns it off.

    Returns
    -------
    ndarray of int64, shape (K,)
        0 for a balanced client and for an empty one (the latter ours).

    Raises
    ------
    ValueError
        If `counts` or `beta` is invalid, or the budgets exceed 2**53 samples together.

    Notes
    -----
    FedEAS, the per-class generation budget.
    """
    return _threshold(_as_counts(counts), "fedeas", _as_beta(beta))


def allocate(
    counts: ArrayLike, policy: Policy, *, beta: float = DEFAULT_BETA, total: int | None = None
) -> IntArray:
    """Return g_k^c, the synthetic samples of class c that client k makes under `policy`.

    FedEAS, g_k^c = max(0, b_k - n_k^c), its ablations and the baselines of its experiments.

    Parameters
    ----------
    counts : array_like, shape (K, C)
        Real samples per client and class.
    policy : str
        One of `POLICIES`.
    beta : float
        For the fedeas policies, and for the matched total of the `TOTAL_POLICIES`.
    total : int, optional
        T of the `TOTAL_POLICIES`, met exactly; the total of ``fedeas`` on the same counts if
        left out (matched budget). The other policies ignore it.

    Returns
    -------
    ndarray of int64, shape (K, C)

    Raises
    ------
    ValueError
        If an argument is invalid, or no client has room for a positive `total`.
    """
    clean, beta = _as_counts(counts), _as_beta(beta)
    match policy:
        case "none":
            return np.zeros_like(clean)
        case "full":
            return _fill(clean, clean.max(axis=1))
        case "fedeas" | "fedeas-no-entropy" | "fedeas-linear":
            return _fill(clean, _threshold(clean, policy, beta))
        case "uniform" | "size-proportional" | "missing-only":
            return _allocate_total(clean, policy, beta, total)
        case _:
            raise ValueError(f"policy must be one of {', '.join(POLICIES)}, got {policy!r}.")


def share_weights(counts: ArrayLike, policy: TotalPolicy) -> IntArray:
    """Return the one number per client in proportion to which the server splits T.

    Parameters
    ----------
    counts : array_like, shape (K, C)
        Real samples per client and class; at a client, its own row.
    policy : str
        One of `TOTAL_POLICIES`.

    Returns
    -------
    ndarray of int64, shape (K,)
        1 for ``uniform``, N_k for ``size-proportional``, and the number of missing classes for
        ``missing-only``, which makes T even over all missing (client, class) pairs.

    Raises
    ------
    ValueError
        If `counts` or `policy` is invalid.
    """
    clean = _as_counts(counts)
    match policy:
        case "uniform":
            return np.ones(len(clean), dtype=np.int64)
        case "size-proportional":
            return _sizes(clean)
        case "missing-only":
            return _sizes(clean == 0)
        case _:
            raise ValueError(f"policy must be one of {', '.join(TOTAL_POLICIES)}, got {policy!r}.")


def eligible_classes(counts: ArrayLike, policy: TotalPolicy) -> BoolArray:
    """Return which classes a client's share is spread over, shape (K, C).

    The classes a client lacks for ``missing-only``, all classes for the other `TOTAL_POLICIES`.
    Takes what `share_weights` takes and raises what it raises for `counts`.
    """
    clean = _as_counts(counts)
    return clean == 0 if policy == "missing-only" else np.ones(clean.shape, dtype=np.bool_)


def client_shares(total: int, weights: ArrayLike) -> IntArray:
    """Split `total` over clients in proportion to `weights`, exactly (the server's half).

    Largest remainder in integer arithmetic; equal remainders favour the lowest index.

    Parameters
    ----------
    total : int
        T, at least 0.
    weights : array_like of int, shape (K,)
        Non-negative; a client of weight 0 gets nothing.

    Returns
    -------
    ndarray of int64, shape (K,)
        Its sum is `total`.

    Raises
    ------
    ValueError
        If an argument is invalid, or `total` is positive and every weight is 0.
    """
    total, weights = _as_total(total), _as_vector("weights", weights)
    whole = int(weights.sum())
    if total == 0:
        return np.zeros_like(weights)
    if whole == 0:
        raise ValueError(f"total = {total} cannot be split: no client has a positive weight.")
    times, rest = divmod(total, whole)
    # T w_k may exceed int64; rest < sum(w) is smaller, and Python integers take what is left.
    fits = rest * int(weights.max()) <= np.iinfo(np.int64).max
    products = (weights if fits else weights.astype(object)) * rest
    shares: IntArray = times * weights + (products // whole).astype(np.int64)
    remainders = (products % whole).astype(np.int64)
    shares[np.argsort(-remainders, kind="stable")[: total - int(shares.sum())]] += 1
    return shares


def spread(shares: ArrayLike, eligible: ArrayLike) -> IntArray:
    """Split each client's share evenly over its eligible classes (the client's half).

    What does not divide goes one by one to the client's first eligible classes.

    Parameters
    ----------
    shares : array_like of int, shape (K,)
        Samples per client, non-negative.
    eligible : array_like of bool, shape (K, C)
        Which classes receive samples.

    Returns
    -------
    ndarray of int64, shape (K, C)
        Its rows sum to `shares`.

    Raises
    ------
    ValueError
        If shapes or values are invalid, or a client with a share has no eligible class.
    """
    shares, mask = _as_vector("shares", shares), np.asarray(eligible)
    if mask.dtype != np.bool_ or mask.ndim != 2 or len(mask) != len(shares):
        raise ValueError(
            f"eligible must be a boolean array of shape ({len(shares)}, C), "
            f"got {mask.dtype} of shape {mask.shape}."
        )
    classes = np.count_nonzero(mask, axis=1)
    stuck = (shares > 0) & (classes == 0)
    if stuck.any():
        k = int(stuck.argmax())
        raise ValueError(f"Client {k} has no eligible class for its share of {shares[k]} samples.")
    each, extra = np.divmod(shares, np.maximum(classes, 1))
    position = mask.cumsum(axis=1)  # 1 at a client's first eligible class
    result: IntArray = mask * (each[:, None] + (position <= extra[:, None]))
    return result


def beta_sums(counts: ArrayLike, beta: float) -> tuple[int, float]:
    """Return what one value of beta costs and leaves (ours).

    Both numbers are sums over clients: a server can add up what clients report for their own row
    and get what `auto_beta` sees. ``beta = 0`` gives the state before augmentation.

    Parameters
    ----------
    counts : array_like, shape (K, C)
        Real samples per client and class.
    beta : float
        Strength of the augmentation.

    Returns
    -------
    synthetic : int
        sum_k sum_c g_k^c of the ``fedeas`` policy.
    skew : float
        sum_k M_k (1 - H~_k) over real and synthetic samples; I is this divided by M.

    Raises
    ------
    ValueError
        If `counts` or `beta` is invalid.
    """
    return _beta_sums(_as_counts(counts), _as_beta(beta))


def auto_beta(counts: ArrayLike) -> float:
    """Return the smallest whole even beta that halves the imbalance at a bounded cost.

    It removes at least 50 % of I while synthetic samples are less than 25 % of all. Values are
    tried upwards from 2 to 1,000, as long as the synthetic share, which only grows, is below 25 %.

    Parameters
    ----------
    counts : array_like, shape (K, C)
        Real samples per client and class.

    Returns
    -------
    float
        2.0 where there is nothing to remove: I = 0, so every beta generates nothing.

    Raises
    ------
    ValueError
        If `counts` is invalid, or no beta qualifies (the message names the closest).

    Notes
    -----
    FedEAS, the rule by which beta = 12 is chosen, applied to the score I (ours).
    """
    clean = _as_counts(counts)
    real, before = int(clean.sum()), _skew(clean)
    if before == 0:
        return 2.0
    tried: list[tuple[float, float, float]] = []
    for beta in range(2, MAX_AUTO_BETA + 1, 2):
        synthetic, after = _beta_sums(clean, beta)
        removed = 1.0 - (after / (real + synthetic)) / (before / real)
        tried.append((beta, removed, synthetic / (real + synthetic)))
        if removed >= MIN_REMOVED or tried[-1][2] >= MAX_SYNTHETIC:
            break
    return choose_beta(*zip(*tried, strict=True))


def choose_beta(
    betas: Sequence[float] | FloatArray,
    removed: Sequence[float] | FloatArray,
    synthetic_share: Sequence[float] | FloatArray,
) -> float:
    """Return the smallest beta that removes enough imbalance at a small enough cost.

    Parameters
    ----------
    betas : array_like, shape (B,)
        Candidates, in any order.
    removed : array_like, shape (B,)
        Share of the imbalance I that each removes; at least 0.5 qualifies.
    synthetic_share : array_like, shape (B,)
        Synthetic over all training samples for each; below 0.25 qualifies.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the arrays are empty, differ in length or are not finite, or if no beta qualifies; the
        message then names the one that removes most below the limit (of all, if none is below).
    """
    table = _as_table(betas, removed, synthetic_share)
    affordable = table[table[:, 2] < MAX_SYNTHETIC]
    qualified = affordable[affordable[:, 1] >= MIN_REMOVED]
    if len(qualified):
        return float(qualified[:, 0].min())
    pool = affordable if len(affordable) else table
    low, high = table[:, 0].min(), table[:, 0].max()
    beta, gone, cost = pool[pool[:, 1].argmax()]
    raise ValueError(
        f"No beta from {low:g} to {high:g} removes {MIN_REMOVED:.0%} of the imbalance "
        f"with less than {MAX_SYNTHETIC:.0%} synthetic samples; the closest is "
        f"beta = {beta:g}, which removes {gone:.2%} with {cost:.2%} synthetic."
    )


def _sizes(counts: IntArray | BoolArray) -> IntArray:
    sizes: IntArray = counts.sum(axis=1, dtype=np.int64)
    return sizes


def _entropy(counts: IntArray) -> FloatArray:
    classes = counts.shape[1]
    if classes == 1:
        return np.ones(len(counts))
    p = counts / np.maximum(_sizes(counts), 1)[:, None]
    h = entr(p, out=p).sum(axis=1) / np.log(classes)
    # Exactly 1 where all counts are equal (all zero included), whatever the logarithms round to.
    level = counts.min(axis=1) == counts.max(axis=1)
    return np.where(level, 1.0, np.clip(h, 0.0, 1.0))


def _skew(counts: IntArray) -> float:
    return float(_sizes(counts) @ (1.0 - _entropy(counts)))


def _threshold(
    counts: IntArray,
    policy: Literal["fedeas", "fedeas-no-entropy", "fedeas-linear"],
    beta: float,
) -> IntArray:
    classes = counts.shape[1]
    mean = _sizes(counts) / classes
    size = mean if policy == "fedeas-linear" else np.sqrt(mean)
    skew = 1.0 if policy == "fedeas-no-entropy" else 1.0 - _entropy(counts)
    level: FloatArray = np.floor(size * skew * (beta * (1.0 + _FLOOR_TOLERANCE)))
    if level.sum() * classes > MAX_SAMPLES:
        raise ValueError(f"beta = {beta:g} is too large: it asks for more than 2**53 samples.")
    return level.astype(np.int64)


def _fill(counts: IntArray, level: IntArray) -> IntArray:
    missing: IntArray = level[:, None] - counts
    np.maximum(missing, 0, out=missing)
    return missing


def _beta_sums(counts: IntArray, beta: float) -> tuple[int, float]:
    synthetic = _fill(counts, _threshold(counts, "fedeas", beta))
    return int(synthetic.sum()), _skew(counts + synthetic)


def _allocate_total(
    counts: IntArray, policy: TotalPolicy, beta: float, total: int | None
) -> IntArray:
    if total is None:
        total = int(_fill(counts, _threshold(counts, "fedeas", beta)).sum())
    total = _as_total(total)
    weights = share_weights(counts, policy)
    if total > 0 and not weights.any():
        reason = "no client lacks a class" if policy == "missing-only" else "no client has samples"
        raise ValueError(f"Policy {policy!r} cannot place T = {total} samples: {reason}.")
    return spread(client_shares(total, weights), eligible_classes(counts, policy))


def _as_counts(counts: ArrayLike) -> IntArray:
    clean = _as_integers("counts", counts)
    if clean.ndim != 2 or clean.shape[1] == 0:
        raise ValueError(
            f"counts must have shape (clients, classes) with at least one class, got {clean.shape}."
        )
    return clean


def _as_vector(name: str, values: ArrayLike) -> IntArray:
    clean = _as_integers(name, values)
    if clean.ndim != 1:
        raise ValueError(f"{name} must have shape (clients,), got {clean.shape}.")
    return clean


def _as_integers(name: str, values: ArrayLike) -> IntArray:
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array, got rows of unequal length.") from None
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be whole numbers, got an array of {array.dtype}.")
    if array.dtype.kind == "f":
        _refuse(name, array, ~np.isfinite(array) | (np.floor(array) != array))
    _refuse(name, array, array < 0)
    if array.sum(dtype=np.float64) > MAX_SAMPLES:
        raise ValueError(
            f"{name} must not exceed 2**53 in all, got {array.sum(dtype=np.float64):g}."
        )
    return array.astype(np.int64, copy=False)


def _refuse(name: str, array: NDArray[np.generic], bad: BoolArray) -> None:
    if bad.any():
        where = tuple(int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))
        raise ValueError(
            f"{name} must be whole, non-negative numbers, got {array[where]} at index {where}."
        )


def _as_total(total: int) -> int:
    if not isinstance(total, Integral) or isinstance(total, bool) or not 0 <= total <= MAX_SAMPLES:
        raise ValueError(f"total must be a whole number from 0 to 2**53, got {total!r}.")
    return int(total)


def _as_beta(beta: float) -> float:
    real = isinstance(beta, Real) and not isinstance(beta, bool)
    if not real or not 0 <= beta <= MAX_SAMPLES:  # nan fails the comparison as well
        raise ValueError(f"beta must be a number from 0 to 2**53, got {beta!r}.")
    return float(beta)


def _as_table(*columns: Sequence[float] | FloatArray) -> FloatArray:
    arrays = [np.asarray(column, dtype=np.float64) for column in columns]
    shapes = [array.shape for array in arrays]
    if len(set(shapes)) != 1 or arrays[0].ndim != 1 or arrays[0].size == 0:
        raise ValueError(
            "betas, removed and synthetic_share must be non-empty and of one length, "
            f"got shapes {', '.join(map(str, shapes))}."
        )
    table = np.column_stack(arrays)
    if not np.isfinite(table).all():
        raise ValueError("betas, removed and synthetic_share must be finite, got nan or infinity.")
    return table
