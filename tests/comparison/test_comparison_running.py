"""Which cells run, what becomes of those that do not end well, and who may run them."""

import json
import multiprocessing
import shutil
import time
from pathlib import Path

import pytest
from made_up_cells import plan_of, write_record

from fedeas_app.comparison.reading import read_comparison
from fedeas_app.comparison.running import alone_in, finished_runs, run_cells
from fedeas_app.errors import UserError
from fedeas_app.runs.directory import LAPSED


class Watched:
    """Remembers what it is told."""

    def __init__(self):
        self.told = []

    def start(self, label, cell):
        self.told.append((label, cell.seed))

    def finish(self, label, cell, reason):
        self.told.append((label, cell.seed, reason))


def run(plan, directory, perform=write_record):
    watcher = Watched()
    comparison = run_cells(plan, directory, finished_runs(plan), perform, watcher)
    return comparison, [entry for entry in watcher.told if len(entry) == 3]


BLOCK = {"policy": ["none", "full"], "seed": [0, 1]}


def test_every_cell_runs_once_and_then_none(tmp_path):
    plan = plan_of(tmp_path, BLOCK)
    comparison, told = run(plan, tmp_path)
    assert told == [("none", 0, None), ("full", 0, None), ("none", 1, None), ("full", 1, None)]
    assert [len(arm.runs) for arm in comparison.arms] == [2, 2]
    again, told = run(plan, tmp_path)
    assert not told
    assert [len(arm.runs) for arm in again.arms] == [2, 2]


def test_a_grid_that_has_grown_keeps_its_cells(tmp_path):
    run(plan_of(tmp_path, BLOCK), tmp_path)
    grown = {"policy": ["none", "full", "fedeas"], "beta": [2, 6], "seed": [0, 1]}
    _, told = run(plan_of(tmp_path, grown), tmp_path)
    assert {label for label, *_ in told} == {"fedeas β=2", "fedeas β=6"}


def test_a_failure_does_not_stop_the_rest_and_runs_again(tmp_path):
    plan = plan_of(tmp_path, BLOCK)
    errors = {0: UserError("no luck"), 1: ZeroDivisionError("by zero\nand more")}

    def perform(cell):
        if cell.settings.policy == "full":
            cell.directory.mkdir(parents=True)
            raise errors[cell.seed]
        write_record(cell)

    comparison, _ = run(plan, tmp_path, perform)
    assert [cell.reason for cell in comparison.failed] == ["no luck", "ZeroDivisionError: by zero"]
    assert [len(arm.runs) for arm in comparison.arms] == [2, 0]
    comparison, told = run(plan, tmp_path)
    assert told == [("full", 0, None), ("full", 1, None)]
    assert not comparison.failed


def test_a_run_that_was_broken_off_is_removed_and_runs_again(tmp_path):
    plan = plan_of(tmp_path, BLOCK)
    _, cell = plan.cells[1]
    write_record(cell, status="running")
    (cell.directory / "model.safetensors").touch()
    _, told = run(plan, tmp_path)
    assert len(told) == 4
    assert not (cell.directory / "model.safetensors").exists()


def test_an_interruption_keeps_what_is_finished_and_why_others_failed(tmp_path):
    plan = plan_of(tmp_path, BLOCK)

    def fail(cell):
        raise UserError("no luck")

    run(plan, tmp_path, fail)

    def perform(cell):
        if cell.seed == 1:
            raise KeyboardInterrupt
        write_record(cell)

    with pytest.raises(KeyboardInterrupt):
        run(plan, tmp_path, perform)
    comparison = read_comparison(tmp_path)
    assert [len(arm.runs) for arm in comparison.arms] == [1, 1]
    assert [(cell.seed, cell.reason) for cell in comparison.failed] == [(1, "no luck")] * 2


def test_a_completed_run_of_other_settings_is_not_touched(tmp_path):
    plan = plan_of(tmp_path, BLOCK)
    _, cell = plan.cells[0]
    write_record(cell)
    config = cell.directory / "config.toml"
    config.write_text(config.read_text().replace("momentum = 0.9", "momentum = 0.8"))
    with pytest.raises(UserError, match="holds a run of other settings"):
        run(plan, tmp_path)
    assert cell.directory.is_dir()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.toml", "a-key-of-another-version = 1\n"),
        ("plan.json", "{"),
        ("summary.json", "{"),
        ("config.toml", None),
    ],
)
def test_a_completed_run_that_cannot_be_read_is_not_touched(tmp_path, name, content):
    plan = plan_of(tmp_path, BLOCK)
    _, cell = plan.cells[0]
    write_record(cell)
    (cell.directory / "model.safetensors").touch()
    damaged = cell.directory / name
    damaged.write_text(content) if content else damaged.unlink()
    with pytest.raises(UserError, match=r"a completed run that this version cannot read .*--out"):
        run(plan, tmp_path)
    assert (cell.directory / "model.safetensors").exists()


def test_a_damaged_index_is_written_anew(tmp_path):
    (tmp_path / "comparison.json").write_text("{")
    comparison, _ = run(plan_of(tmp_path, BLOCK), tmp_path)
    assert not comparison.failed


def test_one_comparison_at_a_time(tmp_path):
    with alone_in(tmp_path), pytest.raises(UserError, match="Another fedeas compare is running"):
        enter(tmp_path)
    enter(tmp_path)


def test_the_lock_of_a_process_that_was_killed_blocks_nobody(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    holder = context.Process(target=hold, args=(tmp_path, ready))
    holder.start()
    assert ready.wait(60)
    with pytest.raises(UserError, match="Another fedeas compare"):
        enter(tmp_path)
    holder.kill()
    holder.join()
    enter(tmp_path)


def test_a_directory_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UserError, match="holds something other than a comparison"):
        enter(tmp_path)


def test_a_start_that_was_ended_after_its_grid_goes_on(tmp_path):
    (tmp_path / "grid.toml").touch()
    enter(tmp_path)
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UserError, match="holds something other than a comparison"):
        enter(tmp_path)


def enter(directory: Path) -> None:
    with alone_in(directory):
        pass


def hold(directory, ready):
    with alone_in(directory):
        ready.set()
        time.sleep(60)


def _broken_off(cell, reason=None):
    """Leave what a cell that ended early would."""
    write_record(cell, status="running" if reason is None else "failed")
    summary = json.loads((cell.directory / "summary.json").read_text()) | {"reason": reason}
    kept = {key: value for key, value in summary.items() if value is not None}
    (cell.directory / "summary.json").write_text(json.dumps(kept))


@pytest.mark.parametrize(
    ("reason", "checkpoint", "goes_on"),
    [
        ("interrupted", True, True),
        (None, True, True),  # killed: it could not say why
        ("the server was ended from outside", True, True),
        (LAPSED, True, True),
        ("interrupted", False, False),
        ("Round 3 has no usable reply: gone", True, False),
    ],
)
def test_a_cell_that_was_broken_off_goes_on(tmp_path, reason, checkpoint, goes_on):
    plan = plan_of(tmp_path, {"policy": ["none"], "seed": [0]})
    ((_, cell),) = plan.cells
    _broken_off(cell, reason)
    if checkpoint:
        (cell.directory / "checkpoint.safetensors").write_bytes(b"c")
    seen = []

    def perform(cell):
        seen.append((cell.settings.resume, cell.directory.exists()))
        shutil.rmtree(cell.directory, ignore_errors=True)
        write_record(cell)

    comparison, _ = run(plan, tmp_path, perform)
    assert seen == [(goes_on, goes_on)]
    assert [len(arm.runs) for arm in comparison.arms] == [1]


def test_a_cell_of_other_settings_does_not_go_on(tmp_path):
    ((_, other),) = plan_of(tmp_path / "a", {"policy": ["none"], "seed": [1]}).cells
    plan = plan_of(tmp_path / "b", {"policy": ["none"], "seed": [0]})
    ((_, cell),) = plan.cells
    _broken_off(other, "interrupted")
    (other.directory / "checkpoint.safetensors").write_bytes(b"c")
    shutil.copytree(other.directory, cell.directory)
    seen = []

    def perform(cell):
        seen.append(cell.settings.resume)
        write_record(cell)

    run(plan, tmp_path / "b", perform)
    assert seen == [False]
