"""A comparison, finished or not, read back from its directory; imports nothing heavy.

``comparison.json`` says which cells there are::

    {"varied": ["strategy", "policy"], "baseline": "fedavg none", "target": 0.8,
     "arms": [{"label": "fedavg none", "values": {"strategy": "fedavg", "policy": "none"},
               "baseline": null, "cells": [{"name": "fedavg-none-s0-1f0c2ab9", "seed": 0}]}],
     "failed": {"fedavg-none-s0-1f0c2ab9": "why"}}

``cells/NAME`` is the directory of an ordinary run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedeas_app.errors import UserError
from fedeas_app.reading import is_inside, read_json
from fedeas_app.runs.directory import INTERRUPTED
from fedeas_app.runs.reading import Run, is_run, read_run
from fedeas_app.settings import Value

INDEX = "comparison.json"
CELLS = "cells"
GRID = "grid.toml"


@dataclass(frozen=True)
class Arm:
    """One way to do it, over seeds.

    Attributes
    ----------
    label : str
        The values of the varied keys, such as ``fedoui fedeas β=12``; unique.
    values : dict
        The varied keys (kebab case) that matter to this arm, with its values.
    runs : tuple of Run
        Its completed cells, in order of seed.
    baseline : str or None
        Label of the arm that this one is compared with; None for a baseline itself, and where
        there is none.
    """

    label: str
    values: dict[str, Value]
    runs: tuple[Run, ...]
    baseline: str | None = None


@dataclass(frozen=True)
class FailedCell:
    """A cell that ended early, and why."""

    name: str
    label: str
    seed: int
    reason: str


@dataclass(frozen=True)
class Comparison:
    """Arms beside each other.

    Attributes
    ----------
    directory : Path
    arms : tuple of Arm
        In the order of the grid.
    baseline : str or None
        Label of the arm that all others are compared with; None where there is none, or several
        (one for each α, say), which :attr:`Arm.baseline` names.
    target : float or None
        Accuracy for "rounds to target".
    varied : tuple of str
        The keys in which the arms differ (kebab case, without the seed).
    failed : tuple of FailedCell
    waiting : int
        Cells that have not run yet, or not to their end, as a run was interrupted.
    """

    directory: Path
    arms: tuple[Arm, ...]
    baseline: str | None
    target: float | None
    varied: tuple[str, ...]
    failed: tuple[FailedCell, ...] = ()
    waiting: int = 0

    def arm(self, label: str) -> Arm:
        """Return the arm of a label."""
        return next(arm for arm in self.arms if arm.label == label)


def is_comparison(directory: Path) -> bool:
    """Tell whether a directory is a comparison's."""
    return (directory / INDEX).is_file()


def read_comparison(directory: Path) -> Comparison:
    """Read the directory of a comparison.

    Raises
    ------
    UserError
        It is not one, or its index is damaged. A cell whose record is damaged counts as failed.
    """
    if not is_comparison(directory):
        raise UserError(f"{directory} is not a comparison's directory: no {INDEX}.")
    try:
        return _comparison(directory, read_json(directory / INDEX))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"The comparison in {directory} cannot be read ({error!r}); fedeas compare writes its "
            f"{INDEX} anew."
        ) from error


def _comparison(directory: Path, index: Mapping[str, Any]) -> Comparison:
    _check(index)
    arms: list[Arm] = []
    failed: list[FailedCell] = []
    waiting = 0
    for entry in index["arms"]:
        runs, broken = _cells(directory, entry, index["failed"])
        arms.append(Arm(entry["label"], dict(entry["values"]), tuple(runs), entry["baseline"]))
        failed += broken
        waiting += len(entry["cells"]) - len(runs) - len(broken)
    return Comparison(
        directory,
        tuple(arms),
        index["baseline"],
        index["target"],
        tuple(index["varied"]),
        tuple(failed),
        waiting,
    )


def _check(index: Mapping[str, Any]) -> None:
    """Refuse an index whose values are not what others rely on."""
    texts = [index["varied"], list(index["failed"].values())]
    for arm in index["arms"]:
        if not isinstance(arm["values"], dict):
            raise TypeError(f"values is {arm['values']!r}, not a table")
        texts += [[arm["label"]], [] if arm["baseline"] is None else [arm["baseline"]]]
        for cell in arm["cells"]:
            _check_cell(cell)
    texts.append([] if index["baseline"] is None else [index["baseline"]])
    if not all(isinstance(text, str) for some in texts for text in some):
        raise TypeError("it holds something else in the place of a text")
    if index["target"] is not None and type(index["target"]) not in (int, float):
        raise TypeError(f"target is {index['target']!r}, not a number")


def _check_cell(cell: Mapping[str, Any]) -> None:
    if not is_inside(cell["name"]) or "/" in cell["name"]:
        raise ValueError(f"{cell['name']!r} is no name of a cell")
    if type(cell["seed"]) is not int:
        raise TypeError(f"seed is {cell['seed']!r}, not a whole number")


def _cells(
    directory: Path, arm: Mapping[str, Any], reasons: Mapping[str, str]
) -> tuple[list[Run], list[FailedCell]]:
    runs: list[Run] = []
    failed: list[FailedCell] = []
    for cell in arm["cells"]:
        found = _read(directory / CELLS / cell["name"], reasons.get(cell["name"]))
        if isinstance(found, Run):
            runs.append(found)
        elif found is not None:
            failed.append(FailedCell(cell["name"], arm["label"], cell["seed"], found))
    return runs, failed


def _read(directory: Path, reason: str | None) -> Run | str | None:
    """Return a completed run, why there is none, or None where it is still to run."""
    if not is_run(directory):
        return _of_failure(reason)
    try:
        run = read_run(directory)
    except UserError as error:
        return str(error)
    return run if run.completed else _of_failure(run.summary.get("reason") or reason)


def _of_failure(reason: str | None) -> str | None:
    return None if reason == INTERRUPTED else reason
