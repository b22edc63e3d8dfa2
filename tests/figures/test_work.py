"""Accuracy against images trained on: real and synthetic ones, as often as they were used."""

import numpy as np
import pytest
from made_up_runs import make_comparison, make_run

from fedeas_app.figures import work
from fedeas_app.figures.picture import Missing

REAL = [[30, 0, 0], [10, 10, 10]]  # the first client's H̃ is 0: b = ⌊√10·12⌋ = 37, so 7 + 37 + 37


def runs(policy, **keys):
    return [make_run((0.2, 0.4), REAL, seed=s, policy=policy, beta=12.0, **keys) for s in (0, 1)]


def test_a_round_is_as_long_as_what_its_participants_train_on():
    (plain, _), (made, _) = runs("none", local_epochs=3), runs("fedeas", local_epochs=1)
    assert plain.work == [3 * 60, 6 * 60]
    assert made.work == [60 + 81, 2 * (60 + 81)]


def test_arms_are_drawn_at_their_work():
    arms = [
        ("none", {}, runs("none", local_epochs=1)),
        ("fedeas", {}, runs("fedeas", local_epochs=1)),
    ]
    picture = work.of_comparison(make_comparison(arms))
    (axes,) = picture.draw().axes
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [60, 120])
    np.testing.assert_allclose(axes.lines[1].get_xdata(), [141, 282])
    np.testing.assert_allclose(axes.lines[1].get_ydata(), [20, 40])
    assert axes.get_xlabel() == "images trained on, real and synthetic"
    assert "fedeas: 40.0 after 282 images" in picture.alt


def test_many_arms_have_panels_without_what_would_need_equal_rounds():
    many = [(f"arm {n}", {}, runs("none", local_epochs=n + 1)) for n in range(9)]
    picture = work.of_comparison(make_comparison(many))
    panels = [axes for axes in picture.draw().axes if axes.get_visible()]
    assert len(panels) == 9
    for n, panel in enumerate(panels):
        assert panel.lines[-1].get_xdata()[-1] == pytest.approx(120 * (n + 1))
    assert "dashed line is the first arm" in picture.caption


def test_panels_reach_as_far_as_the_best_arm_and_their_headings_do_not_meet():
    low, high = make_run((0.1, 0.2), REAL), make_run((0.5, 0.9), REAL)
    many = [
        (f"fedavg fedeas-no-entropy β=3.4 arm {n}", {}, [high if n else low]) for n in range(10)
    ]
    figure = work.of_comparison(make_comparison(many)).draw()
    figure.draw_without_rendering()
    assert all(axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > 90 for axes in figure.axes)
    left, right = (axes._left_title.get_window_extent() for axes in figure.axes[:2])
    assert left.x1 < right.x0
    assert right.x1 < figure.bbox.x1


def test_without_rounds_there_is_nothing_to_draw():
    assert isinstance(work.of_comparison(make_comparison([("a", {}, [make_run(())])])), Missing)
