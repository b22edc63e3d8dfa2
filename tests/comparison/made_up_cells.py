"""Cells and records that no run was needed for."""

import json

import numpy as np
import tomli_w

from fedeas_app.comparison.cells import make_cells
from fedeas_app.comparison.design import design
from fedeas_app.comparison.grid import Grid
from fedeas_app.settings import Settings

PARSE = Settings.parse


def plan_of(directory, *blocks, baseline=None, target=None, **shared):
    """Return the design of a grid of small runs."""
    grid = Grid(
        blocks=blocks, shared={"rounds": 1} | shared, baseline=baseline or {}, target=target
    )
    return design(make_cells(grid, {"num-clients": 2}, PARSE, directory), grid)


def write_record(
    cell, accuracies=(0.4, 0.6), status="completed", digests=None, versions=None, **plan
):
    """Leave what a run would, in the place of a cell."""
    directory = cell.directory
    directory.mkdir(parents=True)
    own = ("run-name", "resume")
    flat = {key: value for key, value in cell.settings.to_flat().items() if key not in own}
    (directory / "config.toml").write_text(tomli_w.dumps(flat))
    curve = {"final": accuracies[-1], "best": max(accuracies), "auc": float(np.mean(accuracies))}
    seconds = {"load": 1.0, "prepare": 2.0, "train": 3.0}
    if cell.settings.trains_generator:
        seconds["generator"] = 60.0 + cell.seed
    summary = {"status": status, **curve, "failures": 0, "seconds": seconds}
    _json(directory / "summary.json", summary)
    known = {"train": "t", "test": "u", "partition": "p", "initial-model": "m"}
    manifest = {"digests": known | (digests or {}), "versions": {"torch": "2"} | (versions or {})}
    _json(directory / "manifest.json", manifest | {"classes": ["a", "b"]})
    made = {"real": 100, "synthetic": 0, "made": 0, "imbalance-before": 0.5, "imbalance-after": 0.5}
    _json(directory / "plan.json", made | {"clients": [client(0, 1.5), client(1, 0.5)]} | plan)
    lines = [line(n, accuracy) for n, accuracy in enumerate(accuracies, 1)]
    (directory / "rounds.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))


def client(partition, seconds):
    """Return a client of plan.json."""
    counts = {"partition-id": partition, "num-examples": 50, "synthetic": 0, "made": 0}
    return counts | {"imbalance-before": 0.5, "imbalance-after": 0.5, "seconds": seconds}


def line(number, accuracy, asked=(0, 1)):
    """Return a line of rounds.jsonl."""
    return {
        "round": number,
        "accuracy": accuracy,
        "effective-clients": 2.0,
        "drift": 0.25,
        "participants": [{"partition": partition} for partition in asked],
        "failures": {},
    }


def _json(path, content):
    path.write_text(json.dumps(content))
