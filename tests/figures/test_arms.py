"""Numbers of arms over seeds, and how they are told."""

import numpy as np
import pytest
from made_up_runs import make_comparison, make_run

from fedeas_app.figures import accuracy, loss
from fedeas_app.figures.arms import measured_on, series, shown_arms, shown_run, spread, tell


def test_arms_keep_their_place_when_one_has_no_runs():
    comparison = make_comparison([("a", {}, []), ("b", {}, [make_run()])])
    (arm,) = shown_arms(comparison)
    assert (arm.index, arm.label) == (1, "b")


def test_a_run_is_an_arm_of_its_own():
    (arm,) = shown_run(make_run(strategy="fedavg", policy="full"))
    assert (arm.index, arm.label) == (0, "fedavg full")


def test_a_series_has_the_rounds_that_all_seeds_have_and_their_mean():
    runs = [make_run((0.2, 0.4, 0.9), seed=0), make_run((0.4, 0.8), seed=1)]
    (line,) = series(shown_arms(make_comparison([("a", {}, runs)])), lambda r: r["accuracy"])
    np.testing.assert_array_equal(line.values, [[0.2, 0.4], [0.4, 0.8]])
    np.testing.assert_allclose(line.mean, [0.3, 0.6])


def test_a_round_without_the_value_does_not_count():
    run, other = make_run((0.2, 0.4), seed=0), make_run((0.2, 0.4), seed=1)
    run.trained[1]["drift"] = None
    (line,) = series(shown_arms(make_comparison([("a", {}, [run, other])])), lambda r: r["drift"])
    np.testing.assert_allclose(line.values, [[1.1, np.nan], [1.1, 1.2]])
    np.testing.assert_allclose(line.mean, [1.1, 1.2])


@pytest.mark.parametrize("run", [make_run(()), make_run((0.1,))])
def test_an_arm_without_any_value_is_left_out(run):
    assert series(shown_run(run), lambda line: line.get("nothing")) == []


def test_spread_is_mean_and_deviation_with_n_minus_one():
    assert spread([1.0, 3.0]) == "2.0 ± 1.4"  # deviations of 1 and 1: √(2 / 1)
    assert spread([2.25], ".2f") == "2.25"


def test_numbers_are_told_from_the_largest_to_the_smallest():
    assert tell([("a", 1.0, "one"), ("b", 2.0, "two")]) == "b: two; a: one."


def test_of_many_numbers_the_best_three_and_the_last_are_told():
    many = [(f"arm {n}", float(n), str(n)) for n in range(20)]
    assert tell(many) == "arm 19: 19; arm 18: 18; arm 17: 17; … 16 between …; arm 0: 0."


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (["server", "server"], "the server's test set"),
        ([None], "the server's test set"),  # records from before it was said
        (["clients"], "the images that the clients hold out"),
        (["server", "clients"], "the server's test set or, where it has none, the images"),
    ],
)
def test_where_accuracy_was_measured_is_said(where, words):
    runs = [make_run() for _ in where]
    for run, place in zip(runs, where, strict=True):
        run.manifest.update({"evaluated-on": place} if place else {})
    assert measured_on(runs).startswith(words)
    captions = [accuracy.of_comparison(make_comparison([("a", {}, runs)])).caption]
    if len(set(where)) == 1:
        captions += [accuracy.of_run(runs[0]).caption, loss.of_run(runs[0]).caption]
    assert all(f" on {words}" in caption for caption in captions)
