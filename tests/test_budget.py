"""The budget against hand-worked numbers, exact arithmetic and the paper's reference totals."""

import math
import tracemalloc
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedeas_app import budget
from fedeas_app.budget import POLICIES, TOTAL_POLICIES, allocate, choose_beta, client_shares, spread

QUICK = settings(max_examples=60, deadline=None)

CELL = st.one_of(st.just(0), st.integers(0, 30), st.integers(0, 20_000))
SHAPE = st.tuples(st.integers(1, 6), st.integers(1, 7))
COUNTS = arrays(np.int64, SHAPE, elements=CELL)
BETA = st.one_of(st.integers(0, 40).map(float), st.floats(0, 100))


# --- independent references ---


def decimal_budget(row, beta, *, power=Decimal("0.5"), entropy=True):
    """b_k of one client with 50 digits; a value within 1e-30 of a whole number is that number."""
    with localcontext() as context:
        context.prec = 50
        total = sum(row)
        if total == 0 or (entropy and len(set(row)) == 1):
            return 0
        p = [Decimal(n) / total for n in row if n]
        h = -sum(x * x.ln() for x in p) / Decimal(len(row)).ln() if entropy else 0
        mean = Decimal(total) / len(row)
        size = mean if power == 1 else mean.sqrt()
        return int((size * (1 - h) * Decimal(beta) + Decimal("1e-30")).to_integral(ROUND_FLOOR))


def fraction_shares(total, weights):
    """Largest remainder, word for word."""
    quotas = [Fraction(total * w, sum(weights)) for w in weights]
    shares = [math.floor(q) for q in quotas]
    order = sorted(range(len(weights)), key=lambda k: (shares[k] - quotas[k], k))
    for k in order[: total - sum(shares)]:
        shares[k] += 1
    return shares


def dirichlet_counts(seed, alpha, minimum, clients=20, classes=10, per_class=5_000):
    """Split every class over the clients as flwr_datasets' DirichletPartitioner does."""
    rng = np.random.default_rng(seed)
    for _ in range(1_000):
        parts = rng.dirichlet(np.full(clients, alpha), size=classes)
        cuts = (np.cumsum(parts, axis=1)[:, :-1] * per_class).astype(int)
        counts = np.diff(cuts, axis=1, prepend=0, append=per_class).T
        if counts.sum(axis=1).min() >= minimum:
            return counts
    raise AssertionError("no partition found")


# --- normalised entropy and imbalance ---


def test_entropy_by_hand():
    counts = [[7, 7, 7, 7], [9, 0, 0, 0], [5, 5, 0, 0], [0, 0, 0, 0], [2, 1, 1, 0]]
    # Last row: p = 1/2, 1/4, 1/4 has 1.5 bits of 2.
    np.testing.assert_allclose(budget.normalised_entropy(counts), [1, 0, 0.5, 1, 0.75], atol=1e-15)
    np.testing.assert_allclose(budget.client_imbalance(counts), [0, 1, 0.5, 0, 0.25], atol=1e-15)


@pytest.mark.parametrize("classes", [2, 3, 7, 10, 100, 1000])
@pytest.mark.parametrize("n", [1, 3, 7, 4_999])
def test_balanced_client_is_exactly_one(classes, n):
    assert budget.normalised_entropy(np.full((1, classes), n))[0] == 1.0


@pytest.mark.parametrize("classes", [2, 3, 5, 7, 10, 13, 100])
def test_nearly_balanced_client_stays_within_bounds(classes):
    # 1 - H~ is about 1e-19, less than the logarithms round to, in either direction.
    rows = 10**9 + np.random.default_rng(0).integers(0, 2, (200, classes))
    h = budget.normalised_entropy(rows)
    assert ((h >= 0) & (h <= 1)).all()
    assert not budget.per_class_budget(rows).any()


def test_single_class_problem_has_nothing_to_balance():
    counts = [[5], [0]]
    assert budget.normalised_entropy(counts).tolist() == [1.0, 1.0]
    assert allocate(counts, "fedeas").tolist() == [[0], [0]]


@QUICK
@given(COUNTS)
def test_entropy_matches_a_plain_loop(counts):
    for row, h in zip(counts.tolist(), budget.normalised_entropy(counts), strict=True):
        assert 0.0 <= h <= 1.0
        if len(set(row)) > 1:
            p = [n / sum(row) for n in row if n]
            assert h == pytest.approx(-sum(x * math.log(x) for x in p) / math.log(len(row)))


def test_imbalance_by_hand():
    # (10 * 1 + 20 * 0.5 + 30 * 0) / 60
    counts = np.array([[10, 0, 0, 0], [10, 10, 0, 0], [0, 0, 0, 0]])
    counts = np.vstack([counts, [[5, 10, 5, 10]], [[0, 0, 0, 0]]])
    h = 1 - (2 * (1 / 6) * math.log(6) + 2 * (1 / 3) * math.log(3)) / math.log(4)
    assert budget.imbalance(counts) == pytest.approx((10 + 20 * 0.5 + 30 * h) / 60)


def test_imbalance_limits():
    assert budget.imbalance(np.zeros((3, 4), int)) == 0.0
    assert budget.imbalance(np.zeros((0, 4), int)) == 0.0
    assert budget.imbalance([[4, 4], [9, 9]]) == 0.0
    assert budget.imbalance([[4, 0], [0, 9]]) == 1.0


@QUICK
@given(COUNTS)
def test_full_balancing_leaves_no_imbalance(counts):
    assert budget.imbalance(counts + allocate(counts, "full")) == 0.0


# --- b_k ---


def test_the_floor_does_not_lose_a_unit():
    counts = np.zeros((1, 10), int)
    counts[0, 3] = 250  # mean 25, one class: sqrt(25) * 1 * 12
    assert budget.per_class_budget(counts, 12).tolist() == [60]
    expected = np.full((1, 10), 60)
    expected[0, 3] = 0
    np.testing.assert_array_equal(allocate(counts, "fedeas"), expected)


@QUICK
@given(st.integers(1, 10**7), st.integers(2, 120), st.integers(0, 60))
def test_one_class_client_is_exact(n, classes, beta):
    # floor(sqrt(x)) = isqrt(floor(x)), here with x = n beta^2 / C.
    row = np.zeros((1, classes), int)
    row[0, -1] = n
    assert budget.per_class_budget(row, beta)[0] == math.isqrt(n * beta * beta // classes)


@pytest.mark.parametrize(("classes", "held", "skew"), [(4, 2, 2), (8, 4, 3), (16, 8, 4), (9, 3, 2)])
@pytest.mark.parametrize("beta", [1, 6, 12, 24])
def test_half_covered_clients_are_exact(classes, held, skew, beta):
    # Equal counts in `held` of `classes` classes: 1 - H~ = 1 / skew.
    for n in range(1, 600):
        row = np.zeros((1, classes), int)
        row[0, :held] = n
        expected = math.isqrt(held * n * beta * beta // (classes * skew * skew))
        assert budget.per_class_budget(row, beta)[0] == expected


@QUICK
@given(COUNTS, BETA)
def test_budget_matches_fifty_digits(counts, beta):
    assume(counts.shape[1] > 1)
    expected = [decimal_budget(row, beta) for row in counts.tolist()]
    assert budget.per_class_budget(counts, beta).tolist() == expected


@QUICK
@given(COUNTS, st.integers(0, 40))
def test_ablations_match_fifty_digits(counts, beta):
    assume(counts.shape[1] > 1)
    rows = counts.tolist()
    no_entropy = [decimal_budget(row, beta, entropy=False) for row in rows]
    linear = [decimal_budget(row, beta, power=1) for row in rows]
    for policy, level in (("fedeas-no-entropy", no_entropy), ("fedeas-linear", linear)):
        expected = [[max(0, b - n) for n in row] for b, row in zip(level, rows, strict=True)]
        assert allocate(counts, policy, beta=beta).tolist() == expected


# --- policies ---


def test_policies_are_named_once():
    assert len(POLICIES) == len(set(POLICIES)) == 8
    assert TOTAL_POLICIES == ("uniform", "size-proportional", "missing-only")
    assert set(TOTAL_POLICIES) < set(POLICIES)


def test_fedeas_by_hand():
    # Mean 4, H~ = 1/2: 2 * 0.5 * 12 = 12 a class.
    assert allocate([[8, 8, 0, 0]], "fedeas").tolist() == [[4, 4, 12, 12]]


def test_full_and_none_by_hand():
    assert allocate([[8, 3, 0], [0, 0, 0]], "full").tolist() == [[0, 5, 8], [0, 0, 0]]
    assert allocate([[8, 3, 0]], "none").tolist() == [[0, 0, 0]]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("uniform", [[2, 1], [1, 1], [1, 1]]),  # 3, 2, 2
        ("size-proportional", [[2, 2], [0, 0], [2, 1]]),  # 3.5, 0, 3.5: the tie to client 0
        ("missing-only", [[0, 2], [3, 2], [0, 0]]),  # 7/3 and 14/3 of one and two missing classes
    ],
)
def test_total_policies_by_hand(policy, expected):
    assert allocate([[3, 0], [0, 0], [1, 2]], policy, total=7).tolist() == expected


@QUICK
@given(COUNTS, st.integers(0, 10**12), st.sampled_from(TOTAL_POLICIES))
def test_total_is_met_exactly_by_the_two_level_split(counts, total, policy):
    weights = budget.share_weights(counts, policy)
    assume(weights.any())
    shares = client_shares(total, weights)
    g = allocate(counts, policy, total=total)
    assert int(g.sum()) == total
    assert g.min() >= 0
    np.testing.assert_array_equal(g, spread(shares, budget.eligible_classes(counts, policy)))
    for k in range(len(counts)):  # what client k computes alone, from its own row
        own = spread(shares[k : k + 1], budget.eligible_classes(counts[k : k + 1], policy))
        np.testing.assert_array_equal(own[0], g[k])
        assert budget.share_weights(counts[k : k + 1], policy)[0] == weights[k]


@QUICK
@given(COUNTS, BETA, st.sampled_from(TOTAL_POLICIES))
def test_matched_total_is_the_fedeas_total(counts, beta, policy):
    assume(budget.share_weights(counts, policy).any())
    fedeas = int(allocate(counts, "fedeas", beta=beta).sum())
    assert int(allocate(counts, policy, beta=beta).sum()) == fedeas


@QUICK
@given(COUNTS, st.integers(0, 10**6))
def test_missing_only_is_even_over_missing_pairs(counts, total):
    missing = counts == 0
    assume(missing.any())
    g = allocate(counts, "missing-only", total=total)
    assert not g[~missing].any()
    assert g[missing].max() - g[missing].min() <= 1


@QUICK
@given(COUNTS, st.integers(0, 10**6))
def test_uniform_is_even_over_clients_and_classes(counts, total):
    g = allocate(counts, "uniform", total=total)
    assert np.ptp(g.sum(axis=1)) <= 1
    assert np.ptp(g, axis=1).max() <= 1


@QUICK
@given(st.integers(0, 10**15), st.lists(st.integers(0, 10**10), min_size=1, max_size=12))
def test_client_shares_match_exact_fractions(total, weights):
    assume(any(weights))
    assert client_shares(total, weights).tolist() == fraction_shares(total, weights)


def test_client_shares_where_products_exceed_64_bits():
    weights = [10**10 + 3, 7 * 10**9 + 1, 3, 5 * 10**9]
    for total in (10**9 + 7, 10**10 + 1, 10**12 - 1, 10**15 + 7):
        assert client_shares(total, weights).tolist() == fraction_shares(total, weights)


def test_client_shares_break_ties_to_the_lowest_index():
    assert client_shares(2, [1, 1, 1]).tolist() == [1, 1, 0]
    assert client_shares(10**12 + 1, [5, 0, 5]).tolist() == [5 * 10**11 + 1, 0, 5 * 10**11]


def test_spread_favours_the_first_eligible_classes():
    mask = [[False, True, True, True], [True, False, False, True], [False] * 4]
    assert spread([5, 3, 0], mask).tolist() == [[0, 2, 2, 1], [2, 0, 0, 1], [0] * 4]


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_to_do_for_balanced_and_empty_clients(policy):
    counts = [[6, 6, 6], [11, 11, 11], [1, 1, 1]]
    assert not (allocate(counts, policy, total=0).any() and policy != "fedeas-no-entropy")
    if policy in ("fedeas", "fedeas-linear", "full", "none", "fedeas-no-entropy"):
        assert not allocate(np.zeros((2, 3), int), policy).any()


@QUICK
@given(COUNTS, BETA, st.randoms(use_true_random=False))
@pytest.mark.parametrize("policy", ["fedeas", "full", "fedeas-linear", "fedeas-no-entropy"])
def test_order_of_clients_and_classes_does_not_matter(policy, counts, beta, random):
    rows = random.sample(range(counts.shape[0]), counts.shape[0])
    columns = random.sample(range(counts.shape[1]), counts.shape[1])
    moved = allocate(counts[rows][:, columns], policy, beta=beta)
    np.testing.assert_array_equal(moved, allocate(counts, policy, beta=beta)[rows][:, columns])


@QUICK
@given(COUNTS, BETA, BETA)
def test_more_beta_never_means_fewer_samples(counts, one, other):
    low, high = sorted((one, other))
    assert (allocate(counts, "fedeas", beta=low) <= allocate(counts, "fedeas", beta=high)).all()


@QUICK
@given(COUNTS)
def test_beta_zero_generates_nothing(counts):
    assert not allocate(counts, "fedeas", beta=0).any()


@QUICK
@given(COUNTS)
def test_inputs_are_left_alone_and_types_do_not_matter(counts):
    before = counts.copy()
    for policy in ("fedeas", "full", "none", "uniform"):
        g = allocate(counts, policy)
        assert g.dtype == np.int64
        assert g.shape == counts.shape
        np.testing.assert_array_equal(allocate(counts.astype(np.float32), policy), g)
        np.testing.assert_array_equal(allocate(counts.tolist(), policy), g)
    np.testing.assert_array_equal(counts, before)


def test_a_hundred_thousand_clients():
    rng = np.random.default_rng(0)
    few = rng.poisson(rng.gamma(0.3, 100, (100, 10)))
    many = np.tile(few, (1_000, 1))
    np.testing.assert_array_equal(
        allocate(many, "fedeas"), np.tile(allocate(few, "fedeas"), (1_000, 1))
    )
    tracemalloc.start()
    for policy in TOTAL_POLICIES:
        assert int(allocate(many, policy, total=10**12 + 7).sum()) == 10**12 + 7
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * many.nbytes


# --- the rule for beta ---


def test_auto_beta_by_hand():
    # One class of two, 800 samples: b = 20 beta. Halving I takes a share p of synthetic samples of
    # binary entropy >= 1/2, p >= 0.1100: 80 / 880 = 0.091 is too few, 120 / 920 = 0.130 enough.
    assert budget.auto_beta([[800, 0]]) == 6.0
    assert budget.beta_sums([[800, 0]], 6)[0] == 120


def test_auto_beta_is_two_where_nothing_can_be_removed():
    assert budget.auto_beta([[4, 4], [9, 9]]) == 2.0
    assert budget.auto_beta(np.zeros((3, 2), int)) == 2.0


def test_auto_beta_names_the_closest():
    # sqrt(1/2) * 2 -> 1 sample balances the client, but is half of all samples.
    with pytest.raises(ValueError, match=r"from 2 to 2 .* beta = 2, .* 100\.00% with 50\.00%"):
        budget.auto_beta([[1, 0]])


def test_auto_beta_stops_at_a_quarter_synthetic():
    # One class of ten, 100,000 samples: b = 100 beta in nine classes. beta = 36 makes 32,400
    # (24.47 %) and removes 0.4752; beta = 38 makes 34,200 (25.48 %) and removes 0.4898.
    with pytest.raises(ValueError, match=r"from 2 to 38 .* beta = 36, .* 47\.52% with 24\.47%"):
        budget.auto_beta([[100_000] + [0] * 9])


def test_auto_beta_scan_is_bounded():
    with pytest.raises(ValueError, match="No beta from 2 to 1000"):
        budget.auto_beta([[10**13, 0]])


@QUICK
@given(arrays(np.int64, (4, 3), elements=st.one_of(st.just(0), st.integers(0, 400))))
def test_auto_beta_is_the_smallest_that_qualifies(counts):
    assume(budget.imbalance(counts) > 0)
    try:
        chosen = budget.auto_beta(counts)
    except ValueError:
        chosen = math.inf
    for beta in range(2, budget.MAX_AUTO_BETA + 1, 2):
        removed, share = removed_and_share(counts, beta)
        if beta >= chosen or share >= 0.25:  # the share only grows
            break
        assert removed < 0.5 + 1e-9
    if chosen < math.inf:
        assert (beta, share < 0.25) == (chosen, True)
        assert removed >= 0.5 - 1e-9


@QUICK
@given(COUNTS, BETA)
def test_reports_of_single_clients_add_up(counts, beta):
    reports = [budget.beta_sums(counts[k : k + 1], beta) for k in range(len(counts))]
    synthetic, skew = budget.beta_sums(counts, beta)
    g = allocate(counts, "fedeas", beta=beta)
    assert sum(report[0] for report in reports) == synthetic == int(g.sum())
    assert math.fsum(report[1] for report in reports) == pytest.approx(skew, abs=1e-9)
    samples = int((counts + g).sum())
    assert budget.imbalance(counts + g) * samples == pytest.approx(skew, abs=1e-9)


def test_choose_beta():
    betas = [8, 2, 4, 6]
    assert choose_beta(betas, [0.7, 0.3, 0.5, 0.6], [0.24, 0.1, 0.15, 0.2]) == 4.0  # 50 % is enough
    assert choose_beta(betas, [0.7, 0.6, 0.49, 0.4], [0.2, 0.25, 0.1, 0.1]) == 8.0  # 25 % is not
    with pytest.raises(ValueError, match=r"from 2 to 8 .* beta = 6, which removes 40\.00%"):
        choose_beta(betas, [0.7, 0.3, 0.35, 0.4], [0.3, 0.1, 0.15, 0.2])
    with pytest.raises(ValueError, match=r"beta = 8, which removes 70\.00% with 30\.00%"):
        choose_beta(betas, [0.7, 0.3, 0.35, 0.4], [0.3, 0.3, 0.3, 0.3])


@pytest.mark.parametrize(
    "columns",
    [([], [], []), ([2, 4], [0.5], [0.1]), ([2], [math.nan], [0.1]), ([[2]], [[0.5]], [[0.1]])],
)
def test_choose_beta_refuses_malformed_tables(columns):
    with pytest.raises(ValueError, match="betas, removed and synthetic_share must be"):
        choose_beta(*columns)


# --- reference totals: 10 classes of 5,000 labels, 20 clients ---

TABLE = {0.05: (17_500, 298_000), 0.1: (13_480, 246_000), 0.3: (5_170, 163_000)}


@pytest.mark.parametrize("alpha", TABLE)
@pytest.mark.parametrize(("minimum", "tolerance"), [(1, 0.02), (10, 0.08)])
def test_reference_totals(alpha, minimum, tolerance):
    partitions = [dirichlet_counts(seed, alpha, minimum) for seed in range(30)]
    for policy, expected in zip(("fedeas", "full"), TABLE[alpha], strict=True):
        totals = [int(allocate(counts, policy).sum()) for counts in partitions]
        assert np.median(totals) == pytest.approx(expected, rel=tolerance)


def test_the_rule_picks_twelve_on_the_mean_of_the_reference_partitions():
    # Means of 20 partitions: 50.1 % removed, 21.4 % synthetic. Partitions differ by 2 points, so
    # 50.1 % is these twenty seeds' mean (the mean of many is 49.8 %), and the margin a thin one.
    betas = np.arange(2.0, 17.0, 2.0)
    partitions = [dirichlet_counts(seed, 0.1, minimum=1) for seed in range(20)]
    table = np.array([[removed_and_share(counts, beta) for beta in betas] for counts in partitions])
    removed, share = table.mean(axis=0).T
    assert removed[5] == pytest.approx(0.501, abs=6e-4)
    assert share[5] == pytest.approx(0.214, abs=6e-4)
    assert choose_beta(betas, removed, share) == 12.0


def removed_and_share(counts, beta):
    g = allocate(counts, "fedeas", beta=beta)
    removed = 1 - budget.imbalance(counts + g) / budget.imbalance(counts)
    return removed, g.sum() / (counts + g).sum()


# --- refusals ---


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, 2, 3], r"shape \(clients, classes\).*got \(3,\)"),
        ([[[1]]], r"got \(1, 1, 1\)"),
        (np.zeros((3, 0), int), r"at least one class, got \(3, 0\)"),
        ([[1, 2], [3]], "unequal length"),
        ([[1, 2], [3, -4]], r"got -4 at index \(1, 1\)"),
        ([[1, 2.5]], r"got 2\.5 at index \(0, 1\)"),
        ([[1, math.nan]], r"got nan at index \(0, 1\)"),
        ([[math.inf, 1]], r"got inf at index \(0, 0\)"),
        ([["a", "b"]], "whole numbers, got an array of <U1"),
        ([[True, False]], "whole numbers, got an array of bool"),
        ([[2**53, 2]], r"not exceed 2\*\*53"),
    ],
)
def test_bad_counts(counts, message):
    functions = (
        budget.normalised_entropy,
        budget.imbalance,
        budget.per_class_budget,
        budget.auto_beta,
    )
    for function in functions:
        with pytest.raises(ValueError, match=message):
            function(counts)
    for policy in POLICIES:
        with pytest.raises(ValueError, match=message):
            allocate(counts, policy)


@pytest.mark.parametrize("beta", [-1, math.nan, math.inf, "auto", None, True])
def test_bad_beta(beta):
    with pytest.raises(ValueError, match="beta must be a number from 0"):
        budget.per_class_budget([[1, 0]], beta)
    with pytest.raises(ValueError, match="beta must be a number from 0"):
        allocate([[1, 0]], "fedeas", beta=beta)


def test_budget_too_large_to_count():
    with pytest.raises(ValueError, match=r"beta = 1e\+15 is too large"):
        allocate([[10_000, 0]], "fedeas", beta=1e15)


@pytest.mark.parametrize("total", [-1, 2.0, "3", True, 2**53 + 1])
def test_bad_total(total):
    with pytest.raises(ValueError, match="total must be a whole number"):
        allocate([[1, 0]], "uniform", total=total)
    with pytest.raises(ValueError, match="total must be a whole number"):
        client_shares(total, [1])


def test_bad_policy():
    with pytest.raises(ValueError, match=r"policy must be one of none, fedeas.*got 'fedavg'"):
        allocate([[1, 0]], "fedavg")
    with pytest.raises(ValueError, match=r"policy must be one of uniform.*got 'fedeas'"):
        budget.share_weights([[1, 0]], "fedeas")


def test_a_total_without_a_place_is_refused():
    with pytest.raises(ValueError, match=r"'missing-only' cannot place T = 5.*lacks a class"):
        allocate([[1, 1], [2, 9]], "missing-only", total=5)
    with pytest.raises(ValueError, match=r"'size-proportional' cannot place T = 5.*has samples"):
        allocate([[0, 0]], "size-proportional", total=5)
    with pytest.raises(ValueError, match="'uniform' cannot place T = 5"):
        allocate(np.zeros((0, 2), int), "uniform", total=5)
    with pytest.raises(ValueError, match="total = 5 cannot be split"):
        client_shares(5, [0, 0])
    with pytest.raises(ValueError, match="Client 1 has no eligible class for its share of 3"):
        spread([2, 3], [[True, False], [False, False]])
    assert allocate([[1, 1]], "missing-only", total=0).tolist() == [[0, 0]]


def test_bad_split_arguments():
    with pytest.raises(ValueError, match="weights must have shape"):
        client_shares(1, [[1]])
    with pytest.raises(ValueError, match=r"weights must be whole.*got -1 at index \(1,\)"):
        client_shares(1, [1, -1])
    with pytest.raises(ValueError, match=r"shape \(2, C\), got bool of shape \(1, 2\)"):
        spread([1, 1], [[True, False]])
    with pytest.raises(ValueError, match="boolean array"):
        spread([1], [[1, 0]])
