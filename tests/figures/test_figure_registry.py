"""Every figure of whatever the data allow, with its words."""

import pytest
from made_up_runs import make_comparison, make_run

from fedeas_app.figures import (
    DARK,
    LIGHT,
    Picture,
    comparison_figures,
    comparison_missing,
    run_figures,
    run_missing,
    to_svg,
)

COUNTED = {"budget-map", "diminishing-returns"}


def check(pictures, theme):
    for picture in pictures:
        assert isinstance(picture, Picture)
        assert all([picture.title, picture.caption.endswith("."), picture.alt.endswith(".")])
        svg = to_svg(picture.draw(theme))
        assert theme.background in svg
        assert "nan" not in svg
    assert len({picture.name for picture in pictures}) == len(pictures)


def test_a_full_run_has_every_figure():
    run = make_run(strategy="fedoui")
    assert [picture.name for picture in run_figures(run)] == [
        "accuracy",
        "loss",
        "oui-weights",
        "effective-clients",
        "drift",
        "budget-map",
        "concentration",
        "diminishing-returns",
    ]
    assert run_missing(run) == []
    check(run_figures(run), LIGHT)


def test_a_full_comparison_has_every_figure(grid):
    assert [picture.name for picture in comparison_figures(grid)] == [
        "accuracy",
        "work",
        "tradeoff",
        "beta-sweep",
        "effective-clients",
        "drift",
        "budget-map",
        "concentration",
        "diminishing-returns",
        "oui-weights-1",
        "oui-weights-2",
    ]
    assert comparison_missing(grid) == []
    check(comparison_figures(grid), DARK)


def test_what_a_deployed_run_does_not_know_is_left_out_with_the_reason():
    full, deployed = make_run(strategy="fedoui"), make_run(strategy="fedoui", counts=False)
    left_out = {p.name for p in run_figures(full)} - {p.name for p in run_figures(deployed)}
    assert left_out == COUNTED
    assert all("simulations" in missing.reason for missing in run_missing(deployed))


def test_a_run_that_failed_at_once_has_only_reasons():
    run = make_run((), counts=False)
    run.plan.clear()
    assert run_figures(run) == []
    assert all(missing.reason.endswith(".") for missing in run_missing(run))


@pytest.mark.parametrize("arms", [[("a", {}, [])], [("a", {}, []), ("b", {}, [])]])
def test_a_comparison_without_runs_has_only_reasons(arms):
    comparison = make_comparison(arms)
    assert comparison_figures(comparison) == []
    assert len(comparison_missing(comparison)) == 10
