"""Arms, their labels, and which is compared with which."""

import pytest
from made_up_cells import plan_of

from fedeas_app.commands.configuration import resolve
from fedeas_app.comparison.cells import make_cells
from fedeas_app.comparison.design import design
from fedeas_app.comparison.grid import Grid
from fedeas_app.errors import UserError


def labels(plan):
    return [arm.label for arm in plan.arms]


def baselines(plan):
    return {arm.label: arm.baseline for arm in plan.arms}


def test_a_label_holds_what_varies_and_nothing_else(tmp_path):
    block = {"alpha": [0.1, 0.3], "policy": ["none", "fedeas"], "beta": [6, 12], "seed": [0, 1]}
    plan = plan_of(tmp_path, block, strategy="fedavg")
    assert plan.varied == ("policy", "beta", "alpha")
    assert labels(plan) == [
        "none α=0.1", "fedeas β=6 α=0.1", "fedeas β=12 α=0.1",
        "none α=0.3", "fedeas β=6 α=0.3", "fedeas β=12 α=0.3",
    ]  # fmt: skip
    assert plan.arms[0].values == {"policy": "none", "alpha": 0.1}
    assert [len(arm.cells) for arm in plan.arms] == [2] * 6


def test_other_keys_are_called_by_their_names(tmp_path):
    plan = plan_of(tmp_path, {"oui-gamma": [0.5, 1], "augment": [False, True]}, policy="none")
    assert labels(plan)[0] == "augment=false γ=0.5"
    assert labels(plan)[-1] == "augment=true γ=1"


def test_a_single_arm_has_a_label_too(tmp_path):
    plan = plan_of(tmp_path, {"seed": [0, 1]}, strategy="fedavg")
    assert labels(plan) == ["fedavg fedeas"]
    assert plan.varied == ()


def test_no_digit_of_a_label_is_lost(tmp_path):
    plan = plan_of(tmp_path, {"alpha": [0.12345678, 0.12345679]})
    assert labels(plan) == ["α=0.12345678", "α=0.12345679"]


def test_cells_run_seed_after_seed(tmp_path):
    plan = plan_of(tmp_path, {"policy": ["none", "full"], "seed": [1, 0]})
    assert [(cell.seed, arm.label) for arm, cell in plan.cells] == [
        (0, "none"), (0, "full"), (1, "none"), (1, "full"),
    ]  # fmt: skip
    assert plan.seeds == {0, 1}


def test_one_baseline_is_everybody_elses(tmp_path):
    block = {"strategy": ["fedavg", "fedoui"], "policy": ["none", "fedeas"]}
    plan = plan_of(tmp_path, block, baseline={"strategy": "fedavg", "policy": "none"}, beta=6)
    assert plan.baseline == "fedavg none"
    assert baselines(plan) == {
        "fedavg none": None, "fedavg fedeas": "fedavg none",
        "fedoui none": "fedavg none", "fedoui fedeas": "fedavg none",
    }  # fmt: skip


def test_what_the_baseline_leaves_open_has_to_agree(tmp_path):
    block = {"strategy": ["fedavg", "fedoui"], "policy": ["none", "fedeas"], "alpha": [0.1, 1]}
    plan = plan_of(tmp_path, block, baseline={"strategy": "fedavg"})
    assert plan.baseline is None
    found = baselines(plan)
    assert found["fedoui none α=1"] == "fedavg none α=1"
    assert found["fedoui fedeas α=0.1"] == "fedavg fedeas α=0.1"
    assert found["fedavg none α=1"] is None


def test_an_arm_without_a_counterpart_is_compared_with_none(tmp_path):
    blocks = {"strategy": ["fedavg", "fedoui"]}, {"strategy": ["fedprox"], "alpha": [1]}
    plan = plan_of(tmp_path, *blocks, baseline={"strategy": "fedavg"})
    assert baselines(plan)["fedprox α=1"] is None


def test_a_baseline_is_found_by_the_keys_that_matter_to_an_arm(tmp_path):
    block = {"strategy": ["fedavg", "fedoui"], "oui-gamma": [1, 0.5]}
    plan = plan_of(tmp_path, block, baseline={"oui-gamma": 1}, policy="none")
    assert baselines(plan) == {"fedavg": None, "fedoui γ=1": None, "fedoui γ=0.5": "fedoui γ=1"}


def test_a_baseline_may_say_what_does_not_matter_to_it(tmp_path):
    wanted = {"strategy": "fedavg", "policy": "none", "beta": 2}
    block = {"strategy": ["fedavg", "fedoui"], "policy": ["none"]}
    assert plan_of(tmp_path, block, baseline=wanted, beta=2).baseline == "fedavg"


@pytest.mark.parametrize("mu", ["auto", 0.01])
def test_a_baseline_is_what_its_values_come_to(tmp_path, mu):
    block = {"strategy": ["fedprox"], "proximal-mu": [0.01, 0.1]}
    plan = plan_of(tmp_path, block, baseline={"proximal-mu": mu})
    assert plan.baseline == "proximal-mu=0.01"


def test_a_baseline_is_resolved_as_cells_are(tmp_path):
    grid = Grid(
        blocks=[{"strategy": ["fedavg", "fedoui"], "num-clients": ["auto", 5]}],
        baseline={"strategy": "fedavg", "num-clients": "auto"},
    )
    plan = design(make_cells(grid, {}, resolve, tmp_path), grid, resolve)
    assert plan.baseline == "fedavg num-clients=10"


def test_what_does_not_matter_to_an_arm_need_not_agree_if_one_baseline_is_left(tmp_path):
    blocks = (
        {"policy": ["none"], "alpha": [0.1, 1]},
        {"policy": ["fedeas"], "beta": [2], "alpha": [0.1]},
        {"policy": ["fedeas"], "beta": [6], "alpha": [1]},
    )
    found = baselines(plan_of(tmp_path, *blocks, baseline={"policy": "fedeas"}))
    assert found["none α=0.1"] == "fedeas β=2 α=0.1"
    assert found["none α=1"] == "fedeas β=6 α=1"


@pytest.mark.parametrize("baseline", [{"policy": "fedeas"}, {"strategy": "fedavg"}])
def test_a_baseline_that_nothing_can_be_compared_with_is_refused(tmp_path, baseline):
    block = {"policy": ["none", "fedeas"], "beta": [2, 6]}
    with pytest.raises(UserError, match=r"fedeas β=2; fedeas β=6.*add keys"):
        plan_of(tmp_path, block, baseline=baseline, strategy="fedavg")


@pytest.mark.parametrize(
    ("baseline", "words"),
    [
        ({"strategy": "moon"}, "strategy=moon is none of the arms; they are: fedavg; fedoui"),
        ({"strategie": "moon"}, "did you mean 'strategy'"),
        ({"strategy": "fedavg", "seed": 0}, "leave seed out"),
    ],
)
def test_a_baseline_has_to_be_an_arm(tmp_path, baseline, words):
    with pytest.raises(UserError, match=words):
        plan_of(tmp_path, {"strategy": ["fedavg", "fedoui"]}, baseline=baseline)


def test_an_arm_shares_a_seed_with_its_baseline(tmp_path):
    blocks = {"strategy": ["fedavg"], "seed": [0, 1]}, {"strategy": ["fedoui"], "seed": [2]}
    with pytest.raises(UserError, match=r"share no seed.*fedoui and its baseline fedavg"):
        plan_of(tmp_path, *blocks, baseline={"strategy": "fedavg"})
