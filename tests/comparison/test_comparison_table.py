"""The tables, against numbers worked out by hand."""

from dataclasses import replace

import pytest
from made_up_cells import plan_of, write_record

from fedeas_app.comparison import table as table_module
from fedeas_app.comparison.reading import FailedCell
from fedeas_app.comparison.summary import shortfall
from fedeas_app.comparison.table import markdown, tables
from fedeas_app.comparison.writing import write_comparison

BLOCK = {"policy": ["none", "fedeas", "uniform"], "seed": [0, 1]}


def table_of(directory, curves, *blocks, baseline=None, target=None, **plan):
    """Return the tables of cells that have these accuracies, by policy and seed."""
    design = plan_of(directory, *blocks, baseline=baseline, target=target, strategy="fedavg")
    for _, cell in design.cells:
        curve = curves.get((cell.settings.policy, cell.seed))
        if curve:
            makes = cell.settings.policy != "none"
            write_record(cell, curve, **({name: makes * n for name, n in plan.items()}))
    return write_comparison(directory, design, {})


@pytest.fixture
def compared(tmp_path):
    curves = {
        ("none", 0): [0.2, 0.5], ("none", 1): [0.3, 0.7],
        ("fedeas", 0): [0.6, 0.8], ("fedeas", 1): [0.4, 0.4], ("uniform", 0): [0.1, 0.2],
    }  # fmt: skip
    return table_of(
        tmp_path, curves, BLOCK, baseline={"policy": "none"}, target=0.55, synthetic=1200, made=400
    )


def test_accuracy(compared):
    table = tables(compared)[0]
    assert table.header == ("arm", "seeds", "final (%)", "best (%)", "AUC", "rounds to 55 %")
    # 50 and 70: mean 60, deviation √200; one seed of two gets there, in round 2.
    assert table.rows[0] == (
        "none", "2", "60.0 ± 14.1", "60.0 ± 14.1", "0.425 ± 0.106", "2.0 (1 of 2)",
    )  # fmt: skip
    assert table.rows[1][2:4] == ("60.0 ± 28.3", "60.0 ± 28.3")
    assert table.rows[2] == ("uniform", "1", "20.0", "20.0", "0.150", "–")


def test_a_note_says_what_the_labels_leave_out(tmp_path):
    few = {"policy": ["none"], "local-epochs": [5], "seed": [0]}
    curves = {(policy, 0): [0.2, 0.5] for policy in (*BLOCK["policy"], "full")}
    many = {"policy": [*BLOCK["policy"], "full"], "local-epochs": [1], "seed": [0]}
    table = tables(table_of(tmp_path, curves, many, few))[0]
    assert [row[0] for row in table.rows] == [
        "none",
        "fedeas",
        "uniform",
        "full",
        "none local-epochs=5",
    ]
    assert "Where an arm says nothing else: local-epochs=1." in table.notes


def test_cost_marks_what_came_from_the_cache_and_matched_budgets(compared):
    table = tables(compared)[1]
    assert table.rows == (
        ("none", "0", "0", "–", "3.0 ± 0.0"),
        ("fedeas", "1,200", "400", "2.0 ± 0.0*", "3.0 ± 0.0"),
        ("uniform", "1,200", "400", "2.0*", "3.0"),
    )
    assert table.notes[1].startswith("train: without synthesis it includes the start")
    assert table.notes[2].startswith("* Images came from the cache")
    assert table.notes[3].startswith("Matched budgets: uniform, ")


def test_cost_has_the_training_of_a_generator_where_an_arm_trains_one(tmp_path):
    """60 and 61 seconds: mean 60.5, deviation √0.5."""
    block = {"policy": ["none", "fedeas"], "generator": ["digits", "federated"], "seed": [0, 1]}
    curves = {(policy, seed): [0.5] for policy in ("none", "fedeas") for seed in (0, 1)}
    table = tables(table_of(tmp_path, curves, block))[1]
    assert table.header[3:] == ("train generator (s)", "generate (s)", "train (s)")
    assert [(row[0], row[3], row[-1]) for row in table.rows] == [
        ("none", "–", "3.0 ± 0.0"),
        ("fedeas generator=digits", "–", "3.0 ± 0.0"),
        ("fedeas generator=federated", "60.5 ± 0.7", "3.0 ± 0.0"),
    ]
    assert table.notes[1].startswith("train generator: the rounds in which the clients train it")


def test_differences_are_paired(compared):
    table = tables(compared)[2]
    assert table.title == "Against none"
    # Final: +30 and −30 points; error 30, and t(0.975; 1) = 12.7062.
    assert table.rows[0] == (
        "fedeas", "2", "0.0 [−381.2, +381.2]", "1 of 2", "+0.125 [−2.734, +2.984]", "1 of 2",
    )  # fmt: skip
    assert table.rows[1] == ("uniform", "1", "−30.0", "0 of 1", "−0.200", "0 of 1")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.000"), (-0.0004, "0.000"), (0.0004, "0.000"), (-0.0006, "−0.001"), (0.5, "+0.500")],
)
def test_a_rounded_zero_has_no_sign(value, text):
    assert table_module._signed(value, "+.3f") == text


def test_an_arm_without_a_counterpart_is_named(tmp_path):
    curves = {("none", 0): [0.5], ("fedeas", 0): [0.75]}
    blocks = {"policy": ["none", "fedeas"]}, {"policy": ["fedeas"], "alpha": [1.0]}
    table = tables(table_of(tmp_path, curves, *blocks, baseline={"policy": "none"}))[2]
    assert [row[0] for row in table.rows] == ["fedeas α=0.1"]
    assert table.notes[1] == "Compared with none, for want of a counterpart: fedeas α=1."


def test_without_a_baseline_or_a_target_there_is_nothing_about_them(tmp_path):
    compared = table_of(tmp_path, {("none", 0): [0.5]}, {"policy": ["none", "fedeas"]})
    accuracy, cost = tables(compared)
    assert accuracy.header[-1] == "AUC"
    assert accuracy.rows[1] == ("fedeas", "0", "–", "–", "–")
    assert cost.rows[1] == ("fedeas", "–", "–", "–", "–")
    assert len(cost.notes) == 2
    alone = table_of(tmp_path / "alone", {("fedeas", 0): [0.5]}, {"policy": ["fedeas"]})
    assert len(tables(alone)[1].notes) == 1  # nothing to say of runs without synthesis


def test_an_unfinished_comparison_counts_its_cells(compared):
    assert tables(compared)[0].notes[0] == "5 of 6 cells finished, 1 to run."
    finished = replace(compared, waiting=0)
    assert len(tables(finished)[0].notes) == 1
    failed = FailedCell("name", "uniform", 1, "no luck")
    assert shortfall(replace(finished, failed=(failed,))) == "5 of 6 cells finished, 1 failed"


def test_several_baselines_are_named_in_each_row(tmp_path):
    curves = {("none", 0): [0.5], ("fedeas", 0): [0.75]}
    block = {"policy": ["none", "fedeas"], "alpha": [0.1, 1.0]}
    table = tables(table_of(tmp_path, curves, block, baseline={"policy": "none"}))[2]
    assert table.title == "Against each arm's baseline"
    assert [row[:4] for row in table.rows] == [
        ("fedeas α=0.1", "none α=0.1", "1", "+25.0"), ("fedeas α=1", "none α=1", "1", "+25.0"),
    ]  # fmt: skip


def test_markdown(compared):
    text = markdown(compared, ["odd | one"])
    assert "| arm | seeds | final (%) | best (%) | AUC | rounds to 55 % |\n|---|---:|" in text
    assert "| uniform | 1 | 20.0 | 20.0 | 0.150 | – |" in text
    assert "## Not to be trusted\n\n* odd | one" in text
    assert "\n\n\n" not in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
