"""Runs of one seed have the same data, partition, first model and cohorts, or are found out."""

import json

import pytest
from made_up_cells import line, plan_of, write_record

from fedeas_app.comparison.agreement import any_compared, disagreements
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


def test_another_version_is_named_over_seeds(compared):
    def spoil(settings):
        return {"versions": {"torch": "1", "fedeas": "0"} if settings.seed == 1 else {}}

    (sentence,) = compared(BLOCK, spoil=spoil)
    assert sentence.startswith("the versions of fedeas, torch with fedavg-fedeas-s1-")
    assert "are not those with fedavg-fedeas-s0-" in sentence


def test_another_generator_is_named_over_seeds(compared):
    def spoil(settings):
        return {"digests": {"generator": "b" if settings.seed == 1 else "a"}}

    (sentence,) = compared({"policy": ["fedeas", "full"], "seed": [0, 1]}, spoil=spoil)
    assert sentence.startswith("the digest of generator of fedoui-fedeas-s1-")
    assert sentence.count("-s1-") == 2
    assert sentence.endswith("though they are to have the same generator")


def test_generators_that_only_the_nodes_know_are_compared(compared):
    def spoil(settings):
        return {"digests": {"generator": ""}, "generator-digest": settings.policy}

    (sentence,) = compared({"policy": ["fedeas", "full"]}, spoil=spoil)
    assert sentence.startswith("the digest of generator of fedoui-full-s0-")


def test_generators_may_differ_where_there_is_none_or_another_is_asked_for(compared):
    blocks = {"policy": ["none"]}, {"sampler-steps": [10, 20]}

    def spoil(settings):
        return {"digests": {"generator": f"{settings.policy} {settings.sampler_steps}"}}

    assert not compared(*blocks, spoil=spoil)


@pytest.mark.parametrize(
    ("block", "answer"),
    [({"strategy": ["fedavg", "moon"]}, True), ({"seed": [0, 1]}, False),
     ({"alpha": [0.1, 0.3]}, False), ({"model": ["cnn", "resnet18"]}, False)],
)  # fmt: skip
def test_a_comparison_needs_two_runs_of_the_same_data(tmp_path, block, answer):
    plan = plan_of(tmp_path, block)
    for _, cell in plan.cells:
        write_record(cell)
    assert any_compared(write_comparison(tmp_path, plan, {})) is answer


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
