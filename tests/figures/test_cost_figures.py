"""Accuracy against synthetic images, and against β."""

import numpy as np
import pytest
from made_up_runs import make_comparison, make_run

from fedeas_app.figures import beta_sweep, tradeoff
from fedeas_app.figures.picture import Missing
from fedeas_app.figures.style import LIGHT

REAL = [[40, 0, 2], [3, 50, 0]]


def test_each_arm_is_a_point_of_its_images_and_accuracy(grid):
    picture = tradeoff.of_comparison(grid)
    figure = picture.draw()
    (axes,) = figure.axes
    points = axes.containers
    assert len(points) == 4
    for container, arm in zip(points, grid.arms, strict=True):
        x, y = container.lines[0].get_data()
        assert x == pytest.approx([np.mean([run.synthetic for run in arm.runs])])
        assert y == pytest.approx([np.mean([100 * run.accuracies[-1] for run in arm.runs])])
    low, _ = axes.get_xlim()
    assert low < 0  # the arm that makes nothing is inside
    assert axes.get_xlabel() == "synthetic images"
    assert "none: 40.0 ± 10.0 with 0 ± 0 images" in picture.alt


def test_bars_are_a_standard_deviation(grid):
    container = tradeoff.of_comparison(grid).draw().axes[0].containers[1]
    vertical = container.lines[2][1].get_segments()[0]
    np.testing.assert_allclose(vertical[:, 1], [40, 60])  # 50 ± 10


def test_few_and_many_images_are_on_one_axis_that_shows_zero():
    few, many = make_run(real=REAL, beta=1.0), make_run(real=np.array(REAL) * 40, policy="full")
    none = make_run(real=REAL, policy="none")
    arms = [("none", {}, [none]), ("few", {}, [few]), ("many", {}, [many])]
    (axes,) = tradeoff.of_comparison(make_comparison(arms)).draw().axes
    assert axes.get_xscale() == "symlog"
    assert 0 in axes.get_xticks()
    assert axes.get_xlim()[0] < 0


def test_without_synthesis_there_is_no_trade_off():
    only = make_comparison([("none", {}, [make_run(policy="none")])])
    assert isinstance(tradeoff.of_comparison(only), Missing)


def test_arms_that_differ_in_beta_alone_are_one_line(grid):
    (sweep,) = beta_sweep.sweeps(grid)
    assert sweep.label == "fedeas"
    assert sweep.betas == (2.0, 12.0)
    assert [arm.label for arm in sweep.arms] == ["fedeas β=2", "fedeas β=12"]
    assert {name: arm.label for name, arm in sweep.bounds.items()} == {
        "none": "none",
        "full": "full",
    }


def test_final_accuracy_and_auc_are_drawn_with_none_and_full(grid):
    picture = beta_sweep.of_comparison(grid)
    final, auc = picture.draw().axes
    assert _points(final) == [(2, pytest.approx(50)), (12, pytest.approx(60))]
    bounds = {each.get_label(): each.get_ydata()[0] for each in final.lines}
    assert bounds["none"] == pytest.approx(40)
    assert bounds["full"] == pytest.approx(70)
    areas = [np.mean([100 * run.summary["auc"] for run in arm.runs]) for arm in grid.arms[1:3]]
    assert _points(auc) == [(2, pytest.approx(areas[0])), (12, pytest.approx(areas[1]))]
    assert "β = 12: 60.0 ± 10.0" in picture.alt


def _points(axes):
    return list(zip(*axes.containers[0].lines[0].get_data(), strict=True))


def test_strategies_are_swept_apart_and_beta_is_in_order():
    def arm(strategy, beta):
        label, values = f"{strategy} β={beta:g}", {"strategy": strategy, "beta": beta}
        return (label, values, [make_run(strategy=strategy, beta=beta)])

    comparison = make_comparison(
        [arm("fedoui", 12.0), arm("fedavg", 6.0), arm("fedoui", 2.0), arm("fedavg", 2.0)]
    )
    found = beta_sweep.sweeps(comparison)
    assert [(sweep.label, sweep.betas) for sweep in found] == [
        ("fedoui", (2.0, 12.0)),
        ("fedavg", (2.0, 6.0)),
    ]


def test_a_bound_that_sweeps_share_is_drawn_once_and_in_no_colour_of_theirs():
    def arm(policy, beta=None):
        keys = {"policy": policy} | ({} if beta is None else {"beta": beta})
        label = policy if beta is None else f"{policy} β={beta:g}"
        return (label, keys, [make_run(**keys)])

    made = [arm(policy, beta) for policy in ("fedeas", "uniform") for beta in (2.0, 6.0)]
    figure = beta_sweep.of_comparison(make_comparison([arm("none"), *made])).draw()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "fedeas", "uniform", "none",
    ]  # fmt: skip
    (bound,) = (line for line in figure.axes[0].lines if line.get_label() == "none")
    assert bound.get_color() == LIGHT.neutral


def test_one_beta_is_no_sweep():
    one = make_comparison([("a", {"beta": 2.0}, [make_run(beta=2.0)]), ("b", {"beta": 4.0}, [])])
    assert isinstance(beta_sweep.of_comparison(one), Missing)
