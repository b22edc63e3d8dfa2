"""OUI against weight in the last round of a FedOUI run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_runs import make_comparison, make_run

from fedeas_app.figures import oui_weights
from fedeas_app.figures.picture import Missing
from fedeas_app.oui import scores


def test_the_last_round_is_in_front_of_all_others():
    run = make_run((0.1, 0.2, 0.3), strategy="fedoui")
    density, score, factor = oui_weights.of_run(run).draw().axes
    last = [p["oui"] for p in run.trained[-1]["participants"]]
    for axes in (score, factor):
        every, front = axes.collections
        assert len(every.get_offsets()) == 12  # four participants in three rounds
        np.testing.assert_array_equal(front.get_offsets()[:, 0], last)
    assert factor.get_xlabel() == "OUI"
    assert density.get_ylabel() == "density"


def test_the_curves_are_the_fitted_beta_and_its_score():
    run = make_run((0.1, 0.2), strategy="fedoui")
    density, score, _ = oui_weights.of_run(run).draw().axes
    values = [p["oui"] for p in run.trained[-1]["participants"]]
    x, y = score.lines[0].get_data()
    np.testing.assert_allclose(y, scores(x, values))
    x, y = density.lines[0].get_data()
    assert np.trapezoid(y, x) == pytest.approx(1, abs=0.01)


def test_all_values_are_inside_the_axis():
    run = make_run((0.1, 0.2, 0.3), strategy="fedoui")
    low, high = oui_weights.of_run(run).draw().axes[-1].get_xlim()
    values = [p["oui"] for line in run.trained for p in line["participants"]]
    assert 0 <= low < min(values)
    assert max(values) < high <= 1


def test_ranks_in_the_place_of_a_beta_are_said():
    run = make_run((0.1, 0.2), strategy="fedoui")
    for number, participant in enumerate(run.trained[-1]["participants"]):
        participant["oui"] = 0.25 + 1e-10 * number  # so close that a Beta would be mere rounding
    picture = oui_weights.of_run(run)
    assert "ranks" in picture.caption
    assert "ranks" in picture.alt
    assert "ranks" in picture.draw().axes[0].texts[0].get_text()


def test_window_and_smoothing_are_said():
    run = make_run((0.1, 0.2), strategy="fedoui", oui_window=2, oui_smoothing=0.5)
    caption = oui_weights.of_run(run).caption
    assert "last 2 rounds" in caption
    assert "running mean" in caption


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (make_run(strategy="fedavg"), "fedavg does not weigh by OUI"),
        (make_run((), strategy="fedoui"), "No round"),
    ],
)
def test_without_oui_weights_there_is_no_figure(run, reason):
    missing = oui_weights.of_run(run)
    assert isinstance(missing, Missing)
    assert reason in missing.reason


@pytest.mark.parametrize("one_client", [True, False])
def test_one_value_gives_every_client_the_full_score(one_client):
    run = make_run((0.1, 0.2), strategy="fedoui")
    participants = run.trained[-1]["participants"]
    del participants[1 if one_client else 4 :]
    for participant in participants:
        participant["oui"] = 0.25
    picture = oui_weights.of_run(run)
    density, score, _ = picture.draw().axes
    assert "each score s of this round is 1" in picture.caption
    assert "a single value" in picture.alt
    assert "every score is 1" in density.texts[0].get_text()
    assert "ranks" not in picture.caption + picture.alt + density.texts[0].get_text()
    np.testing.assert_array_equal(score.lines[0].get_ydata(), 1)


def comparison_of(*strategies):
    arms = []
    for n, strategy in enumerate(strategies):
        runs = [
            replace(make_run(strategy=strategy, seed=seed), directory=Path(f"cell-{n}-{seed}"))
            for seed in (3, 4)
        ]
        arms.append((f"arm {n}", {}, runs))
    return make_comparison(arms)


def test_a_comparison_has_the_first_run_of_two_arms_that_weigh_by_oui():
    comparison = comparison_of("fedavg", "fedoui", "fedoui-fedalign", "fedoui", "fedoui")
    first, second = oui_weights.of_comparison(comparison)
    assert [(p.name, p.title) for p in (first, second)] == [
        ("oui-weights-1", "OUI against weight: arm 1"),
        ("oui-weights-2", "OUI against weight: arm 2"),
    ]
    assert first.caption.startswith("The run cell-1-3, with seed 3. Round 3 in colour")
    assert first.alt == oui_weights.of_run(comparison.arms[1].runs[0]).alt
    assert second.caption.endswith("Not shown: 2 more of the arms that weigh by OUI.")
    (only,) = oui_weights.of_comparison(comparison_of("fedavg", "fedoui"))
    assert "Not shown" not in only.caption


def test_a_comparison_without_oui_says_so():
    for comparison in (comparison_of("fedavg"), make_comparison([("a", {}, [])])):
        (missing,) = oui_weights.of_comparison(comparison)
        assert missing.reason == "No arm with a completed run weighs by OUI."
