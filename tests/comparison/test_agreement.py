"""Runs of one seed have the same data, partition, first model and cohorts, or are found out."""

import json

import pytest
from made_up_cells import line, plan_of, write_record

from fedeas_app.comparison.agreement import disagreements
from fedeas_app.comparison.writing import write_comparison


@pytest.fixture
def compared(tmp_path):
    """Return what disagrees when the cells of a small grid have these records."""

    def look(*blocks, spoil):
        plan = plan_of(tmp_path, *blocks)
        for _, cell in plan.cells:
            write_record(cell, **spoil(cell.settings))
        return disagreements(write_comparison(tmp_path, plan, {}))

    return look


BLOCK = {"strategy": ["fedavg", "fedoui"], "seed": [0, 1]}


def test_runs_that_agree_are_not_spoken_of(compared):
    assert not compared(BLOCK, spoil=lambda s: {"digests": {"partition": f"seed {s.seed}"}})


@pytest.mark.parametrize("name", ["train", "test", "partition", "initial-model"])
def test_a_run_with_other_digests_is_named(compared, name):
    def spoil(settings):
        odd = settings.strategy == "fedoui" and settings.seed == 1
        return {"digests": {name: "other"} if odd else {}}

    (sentence,) = compared(BLOCK, spoil=spoil)
    assert f"the digest of {name} of fedoui-fedeas-s1-" in sentence
    assert "is not that of fedavg-fedeas-s1-" in sentence


def test_what_may_differ_does(compared):
    blocks = {"alpha": [0.1, 0.3]}, {"model": ["resnet18"]}

    def spoil(settings):
        return {"digests": {"partition": str(settings.alpha), "initial-model": settings.model}}

    assert not compared(*blocks, spoil=spoil)


def test_other_clients_in_a_round_are_noticed(tmp_path):
    plan = plan_of(tmp_path, {"strategy": ["fedavg", "fedoui", "moon"]})
    lines = {
        "fedavg": [line(1, 0.5, [0, 1]), line(2, 0.5, [1, 2])],
        "fedoui": [line(1, 0.5, [0]) | {"failures": {"1": "lost"}}],  # asked, and shorter
        "moon": [line(1, 0.5, [0, 1]), line(2, 0.5, [0, 1])],
    }
    for _, cell in plan.cells:
        write_record(cell)
        text = "".join(json.dumps(each) + "\n" for each in lines[cell.settings.strategy])
        (cell.directory / "rounds.jsonl").write_text(text)
    (sentence,) = disagreements(write_comparison(tmp_path, plan, {}))
    assert sentence.startswith("the clients of the rounds of moon-fedeas-s0-")
