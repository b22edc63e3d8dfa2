"""What a comparison leaves, and what is read back of it."""

import csv
import json

import pytest
from made_up_cells import plan_of, write_record

from fedeas_app.comparison.reading import is_comparison, read_comparison
from fedeas_app.comparison.writing import write_comparison
from fedeas_app.errors import UserError

BASELINE = {"strategy": "fedavg", "policy": "none"}


@pytest.fixture
def plan(tmp_path):
    blocks = (
        {"strategy": ["fedavg", "fedoui"], "policy": ["none", "fedeas"], "seed": [0, 1]},
        {"strategy": ["fedavg"], "policy": ["fedeas"], "beta": [2], "seed": [0]},
    )
    return plan_of(tmp_path, *blocks, baseline=BASELINE, target=0.5)


@pytest.fixture
def written(tmp_path, plan):
    """A comparison of which one cell failed, one is damaged, and one has not run."""
    by_label = {(arm.label, cell.seed): cell for arm, cell in plan.cells}
    failed = by_label.pop(("fedoui none", 0))
    broken = by_label.pop(("fedoui none", 1))
    by_label.pop(("fedavg fedeas β=2", 0))
    for cell in by_label.values():
        makes = cell.settings.policy != "none"
        write_record(cell, [0.4, 0.6 + cell.seed / 10], synthetic=50 * makes, made=20 * makes)
    write_record(broken)
    (broken.directory / "rounds.jsonl").write_text("half\n")
    return write_comparison(tmp_path, plan, {failed.name: "no luck"})


def test_it_comes_back_as_it_is(written, tmp_path):
    assert is_comparison(tmp_path)
    again = read_comparison(tmp_path)
    assert [arm.label for arm in again.arms] == [
        "fedavg none", "fedavg fedeas β=12", "fedoui none", "fedoui fedeas β=12",
        "fedavg fedeas β=2",
    ]  # fmt: skip
    assert [len(arm.runs) for arm in again.arms] == [2, 2, 0, 2, 0]
    assert again.arms[1].values == {"strategy": "fedavg", "policy": "fedeas", "beta": 12.0}
    assert [run.settings.seed for run in again.arms[1].runs] == [0, 1]
    assert {arm.baseline for arm in again.arms[1:]} == {"fedavg none"}
    assert (again.baseline, again.target) == ("fedavg none", 0.5)
    assert again.varied == ("strategy", "policy", "beta")
    assert again.arm("fedavg none").baseline is None


def test_failed_and_damaged_cells_say_why(written):
    no_luck, damaged = written.failed
    assert (no_luck.label, no_luck.seed, no_luck.reason) == ("fedoui none", 0, "no luck")
    assert damaged.seed == 1
    assert "cannot be read" in damaged.reason


def write_failure(cell, reason):
    write_record(cell, status="failed")
    path = cell.directory / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"reason": reason}))


def test_the_record_knows_better_than_the_index(plan, tmp_path):
    _, cell = plan.cells[0]
    write_failure(cell, "no space left")
    (failed,) = write_comparison(tmp_path, plan, {cell.name: "of an earlier start"}).failed
    assert failed.reason == "no space left"


def test_an_interrupted_cell_is_still_to_run_and_has_not_failed(plan, tmp_path):
    (_, interrupted), (_, known), *_ = plan.cells
    write_failure(interrupted, "interrupted")
    comparison = write_comparison(
        tmp_path, plan, {known.name: "interrupted"}
    )  # as earlier versions
    assert comparison.failed == ()
    assert comparison.waiting == len(plan.cells)


def test_cells_that_have_not_run_are_counted(written):
    assert written.waiting == 1


def test_the_csv_holds_a_line_for_every_cell(written, tmp_path):
    with open(tmp_path / "table.csv", encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 8
    first = rows[0]
    assert first["arm"] == "fedavg none"
    assert (first["status"], first["seed"], first["final"]) == ("completed", "0", "0.6")
    assert (first["beta"], first["alpha"], first["num-clients"]) == ("", "0.1", "2")
    assert (first["rounds-to-target"], first["prepare-seconds"]) == ("2", "2.0")
    assert first["generating-seconds"] == "2.0"
    assert (rows[2]["beta"], rows[2]["synthetic"], rows[2]["made"]) == ("12.0", "50", "20")
    assert (rows[-2]["status"], rows[-2]["reason"]) == ("failed", "no luck")
    assert (rows[-2]["strategy"], rows[-2]["final"]) == ("fedoui", "")


def test_the_csv_has_the_seconds_that_training_a_generator_took(tmp_path):
    plan = plan_of(tmp_path, {"generator": ["digits", "federated"], "seed": [0]}, policy="fedeas")
    for _, cell in plan.cells:
        write_record(cell)
    write_comparison(tmp_path, plan, {})
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text("utf-8").splitlines()))
    assert [(row["generator"], row["generator-seconds"], row["train-seconds"]) for row in rows] == [
        ("digits", "0.0", "3.0"),
        ("federated", "60.0", "3.0"),
    ]


def test_another_directory_is_refused(tmp_path):
    assert not is_comparison(tmp_path)
    with pytest.raises(UserError, match="is not a comparison's directory"):
        read_comparison(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", '{"arms": [{}]}', '{"arms": 3, "failed": {}}'])
def test_a_damaged_index_is_named(tmp_path, content):
    (tmp_path / "comparison.json").write_text(content)
    with pytest.raises(UserError, match=r"cannot be read .* fedeas compare writes"):
        read_comparison(tmp_path)
