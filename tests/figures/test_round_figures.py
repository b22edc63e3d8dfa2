"""Loss, drift and effective number of clients over rounds."""

from dataclasses import replace

import numpy as np
import pytest
from made_up_runs import make_comparison, make_run

from fedeas_app.figures import (
    drift,
    effective_clients,
    generator_loss,
    loss,
    run_figures,
    run_missing,
)
from fedeas_app.figures.picture import Missing


def test_test_and_training_loss_are_drawn():
    axes = loss.of_run(make_run((0.3, 0.5))).draw().axes[0]
    test, training = axes.lines
    np.testing.assert_allclose(test.get_ydata(), [1.7, 1.5])  # 2 − accuracy
    np.testing.assert_allclose(training.get_ydata(), [1.2, 1.0])
    assert test.get_color() != training.get_color()


def test_an_old_record_without_training_loss_has_the_test_loss():
    run = make_run((0.3, 0.5))
    for line in run.trained:
        del line["train-loss"]
    assert len(loss.of_run(run).draw().axes[0].lines) == 1


def test_drift_is_logarithmic_with_every_participant_as_a_dot():
    picture = drift.of_run(make_run((0.3, 0.5)))
    (axes,) = picture.draw().axes
    assert axes.get_yscale() == "log"
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [1.1, 1.2])
    dots = axes.collections[-1].get_offsets()
    assert len(dots) == 8  # four participants in two rounds
    np.testing.assert_allclose(sorted(dots[:4, 1]), [0.5, 1.5, 2.5, 3.5])
    assert "1.15" in picture.alt  # the median of both rounds


def test_a_round_without_drift_leaves_a_gap():
    run = make_run((0.3, 0.5, 0.6))
    run.trained[1]["drift"] = None
    values = drift.of_run(run).draw().axes[0].lines[0].get_ydata()
    np.testing.assert_allclose(values, [1.1, np.nan, 1.3])


def test_a_record_without_drift_has_no_figure():
    run = make_run((0.3,))
    del run.trained[0]["drift"]
    assert isinstance(drift.of_run(run), Missing)


def test_each_arm_has_its_drift(grid):
    (axes,) = drift.of_comparison(grid).draw().axes
    assert len(axes.lines) == 4
    assert isinstance(drift.of_comparison(make_comparison([("a", {}, [])])), Missing)


def test_effective_clients_lie_below_the_participants(grid):
    picture = effective_clients.of_comparison(grid)
    (axes,) = picture.draw().axes
    *arms, participants = axes.lines
    np.testing.assert_array_equal(participants.get_ydata(), [4, 4, 4])
    assert len(arms) == 4
    for line in arms:
        assert (line.get_ydata() <= 4).all()
        assert (line.get_ydata() >= 1).all()
    assert "dashed line is the number of participants" in picture.caption


def test_cohorts_of_different_sizes_have_no_line():
    small = make_run((0.1, 0.2), real=[[3, 0], [1, 1]])
    picture = effective_clients.of_comparison(
        make_comparison([("a", {}, [make_run((0.1, 0.2))]), ("b", {}, [small])])
    )
    assert len(picture.draw().axes[0].lines) == 2
    assert "dashed" not in picture.caption


@pytest.mark.parametrize("make", [loss.of_run, drift.of_run, effective_clients.of_run])
def test_a_run_without_rounds_has_none_of_them(make):
    assert isinstance(make(make_run(())), Missing)


def test_drift_is_from_the_mean_whatever_the_server_makes_of_it(grid):
    run = make_run((0.3, 0.5), strategy="fedadam")  # applies a step of its own along the mean
    for picture in (drift.of_run(run), drift.of_comparison(grid)):
        assert "lie from their weighted mean" in picture.caption
        assert "applies" not in picture.caption


def trained(*losses):
    lines = tuple({"round": n, "loss": loss} for n, loss in enumerate(losses, 1))
    return replace(make_run((0.3, 0.5)), generator_rounds=lines)


def test_the_loss_of_a_generator_has_a_gap_where_a_round_did_not_count():
    picture = generator_loss.of_run(trained(0.5, None, 0.25))
    (axes,) = picture.draw().axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0.5, np.nan, 0.25])
    assert picture.alt == "Loss of the generator: 0.500 at first, 0.250 after 3 rounds."


def test_a_generator_without_a_round_that_counted_has_no_figure():
    assert isinstance(generator_loss.of_run(trained(None, None)), Missing)


def test_the_loss_of_a_generator_is_drawn_for_runs_that_trained_one():
    names = [picture.name for picture in run_figures(trained(0.5, 0.25))]
    assert names[:2] == ["generator-loss", "accuracy"]
    assert "generator-loss" not in [picture.name for picture in run_figures(make_run())]


def test_a_run_that_trained_a_generator_alone_has_no_other_figure():
    run = make_run((), generator="federated", generator_only=True)
    run = replace(run, generator_rounds=({"round": 1, "loss": 0.5},))
    assert [picture.name for picture in run_figures(run)] == ["generator-loss"]
    assert run_missing(run) == []
