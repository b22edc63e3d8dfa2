"""What is said of a grid while it runs."""

import json

import pytest
from rich.progress import Progress

from fedeas_app.commands import grid_progress
from fedeas_app.commands.grid_progress import GridProgress, duration
from fedeas_app.comparison.cells import make_cells
from fedeas_app.comparison.grid import Grid
from fedeas_app.settings import Settings


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    now = [0.0]
    monkeypatch.setattr(grid_progress.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def cell(tmp_path):
    (made,) = make_cells(Grid(), {"rounds": 8}, Settings.parse, tmp_path)
    made.directory.mkdir(parents=True)
    return made


def append(path, **line):
    with open(path, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")


def test_the_running_cell_and_the_time_left_are_followed(clock, cell):
    progress = Progress(disable=True)
    shown = GridProgress(progress, total=4, finished=1, seconds=[600.0])
    shown.start("fedavg", cell)
    cells, running = progress.tasks
    shown.observe(cell.directory)
    assert (running.description, running.total) == ("fedavg, seed 0", 8)
    assert running.fields["note"] == "starting Flower"
    assert cells.fields["note"] == "about 30 min left"
    append(cell.directory / "generator.jsonl", round=7, loss=0.25)
    shown.observe(cell.directory)
    assert running.fields["note"] == "round 7 of the generator"
    append(cell.directory / "preparation.jsonl", **{"partition-id": 0, "synthetic": 40})
    shown.observe(cell.directory)
    assert running.fields["note"] == "40 of 0 images ready"
    append(cell.directory / "rounds.jsonl", round=3, accuracy=0.5)
    clock[0] = 120.0
    shown.observe(cell.directory)
    assert (running.completed, running.fields["note"]) == (3, "test accuracy 50.0%")
    assert cells.fields["note"] == "about 28 min left"
    shown.finish("fedavg", cell, "no luck")
    assert (shown.done, cells.completed, len(progress.tasks)) == (1, 2, 1)
    assert cells.fields["note"] == ""


def test_without_a_finished_cell_nobody_knows_how_long_it_takes(clock, cell):
    progress = Progress(disable=True)
    shown = GridProgress(progress, total=2, finished=0, seconds=[])
    shown.start("fedavg", cell)
    shown.observe(cell.directory)
    assert progress.tasks[0].fields["note"] == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3, "a minute"), (89, "1 min"), (91, "2 min"), (5340, "89 min"), (9000, "2.5 h")],
)
def test_durations_are_for_a_person(seconds, text):
    assert duration(seconds) == text
