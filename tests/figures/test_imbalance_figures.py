"""Budget map, concentration and diminishing returns."""

import numpy as np
import pytest
from made_up_runs import made_up_counts, make_comparison, make_run

from fedeas_app import budget
from fedeas_app.figures import budget_map, concentration, diminishing
from fedeas_app.figures.picture import Missing

REAL = [[40, 0, 2], [3, 50, 0]]
BALANCED = [[5, 5], [3, 3]]


def test_real_images_are_beside_the_synthetic_ones():
    run = make_run(real=REAL, beta=4.0)
    picture = budget_map.of_run(run)
    left, right, bar = picture.draw().axes
    for axes, table in ((left, run.counts.real), (right, run.counts.synthetic)):
        shown = axes.images[0].get_array()
        np.testing.assert_array_equal(shown.filled(0), table)
        np.testing.assert_array_equal(shown.mask, table == 0)
    assert left.images[0].norm is right.images[0].norm
    assert bar.get_ylabel() == "images"
    assert left.get_title(loc="left") == "real (95)"
    assert "2 clients and 3 classes; a client holds 2 to 2 of them" in picture.alt


def test_classes_carry_their_names_as_long_as_they_are_few():
    few, _, _ = budget_map.of_run(make_run(real=REAL)).draw().axes
    assert [t.get_text() for t in few.get_xticklabels()] == ["class 0", "class 1", "class 2"]
    many, _, _ = budget_map.of_run(make_run(real=made_up_counts(100, 100))).draw().axes
    assert len(many.get_xticks()) < 20


def test_a_comparison_shows_each_policy_once_on_the_same_real_images():
    arms = [
        (f"{strategy} {policy}", {}, [make_run(real=REAL, strategy=strategy, policy=policy)])
        for strategy in ("fedavg", "fedoui")
        for policy in ("none", "fedeas", "full")
    ]
    arms.append(("other", {}, [make_run(real=[[1, 2, 3], [4, 5, 60]])]))
    figure = budget_map.of_comparison(make_comparison(arms)).draw()
    headings = [axes.get_title(loc="left") for axes in figure.axes[:-1] if axes.get_visible()]
    assert [heading.split(" (")[0] for heading in headings] == ["real", "fedeas β=12", "full"]


def test_unknown_counts_are_said():
    run = make_run(counts=False)
    for missing in (budget_map.of_run(run), diminishing.of_run(run)):
        assert isinstance(missing, Missing)
        assert "simulations" in missing.reason
    alone = make_comparison([("a", {}, [run])])
    assert isinstance(budget_map.of_comparison(alone), Missing)
    assert isinstance(diminishing.of_comparison(alone), Missing)


def test_concentration_before_and_after_synthesis():
    run = make_run(real=REAL, beta=4.0, counts=False)  # what a server knows is enough
    before, after, diagonal = concentration.of_run(run).draw().axes[0].lines
    held = np.array([42, 53]) * budget.client_imbalance(REAL)
    held = np.sort(held / held.sum())[::-1]
    np.testing.assert_allclose(before.get_ydata(), [0, held[0], 1])
    np.testing.assert_array_equal(before.get_xdata(), [0, 0.5, 1])
    left = run.plan["imbalance-after"] / run.plan["imbalance-before"]
    assert after.get_ydata()[-1] == pytest.approx(left)
    np.testing.assert_array_equal(diagonal.get_ydata(), [0, 1])


def test_without_synthesis_only_the_real_images_have_a_curve():
    lines = concentration.of_run(make_run(real=REAL, policy="none")).draw().axes[0].lines
    assert [line.get_label() for line in lines] == ["real images", "equal parts"]


def test_a_comparison_has_a_curve_for_what_shapes_the_partition():
    arms = [
        (f"α={alpha}", {"alpha": alpha}, [make_run(alpha=alpha, seed=s) for s in range(2)])
        for alpha in (0.1, 0.3)
    ]
    picture = concentration.of_comparison(make_comparison(arms))
    lines = picture.draw().axes[0].lines
    assert [line.get_label() for line in lines] == ["alpha=0.1", "alpha=0.3", "equal parts"]


def test_a_balanced_federation_has_nothing_to_show():
    run = make_run(real=BALANCED)
    assert isinstance(concentration.of_run(run), Missing)
    assert isinstance(diminishing.of_run(run), Missing)
    alone = make_comparison([("a", {}, [run])])
    assert isinstance(concentration.of_comparison(alone), Missing)
    assert isinstance(diminishing.of_comparison(alone), Missing)


def test_a_run_without_a_plan_has_no_concentration():
    run = make_run()
    run.plan.clear()
    missing = concentration.of_run(run)
    assert isinstance(missing, Missing)
    assert "plan" in missing.reason


def test_policies_are_points_and_fedeas_lies_on_its_curve():
    run = make_run(real=REAL, beta=4.0)
    (axes,) = diminishing.of_run(run).draw().axes
    curve, *points = axes.lines
    found = {point.get_label(): point.get_xydata()[0] for point in points}
    assert set(found) == set(budget.POLICIES) - {"none"}
    assert found["full"] == pytest.approx((80 - 42 + 40 + 150 - 53, 1))
    assert found["uniform"][0] == found["fedeas"][0] == run.synthetic
    made, gone = found["fedeas"]
    assert gone == pytest.approx(np.interp(made, *curve.get_data()), abs=0.05)


def test_the_run_s_own_policy_is_ringed():
    run = make_run(real=REAL, policy="uniform")
    points = diminishing.policy_points(run.counts, 12.0, "uniform")
    assert [point.label for point in points if point.ringed] == ["uniform"]


def test_a_policy_with_nowhere_to_put_its_images_is_left_out():
    run = make_run(real=[[9, 1], [1, 9]], policy="fedeas")  # nobody lacks a class
    labels = [point.label for point in diminishing.policy_points(run.counts, 12.0, "fedeas")]
    assert "missing-only" not in labels
    assert "fedeas" in labels


def test_arms_that_make_the_same_images_share_a_point(grid):
    arms = [(a.label, a.values, a.runs) for a in grid.arms]
    twice = make_comparison(arms + [(f"again {label}", v, r) for label, v, r in arms])
    (axes,) = diminishing.of_comparison(twice).draw().axes
    assert [line.get_label() for line in axes.lines] == [
        *["FedEAS, any β"] * 3,  # one for each seed's partition
        "fedeas β=2",
        "fedeas β=12",
        "full",
    ]
