"""A finished or broken-off run, read back from its directory."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedeas_app.errors import UserError, first_line
from fedeas_app.files import write_text
from fedeas_app.reading import read_json
from fedeas_app.runs.directory import INTERRUPTED, read_lines
from fedeas_app.runs.validation import (
    check_copies,
    check_generator_rounds,
    check_length,
    check_manifest,
    check_plan,
    check_results,
    check_rounds,
    check_summary,
)
from fedeas_app.settings import Settings, read_toml

_COUNTS: Final = "counts.json"
_ROUNDS: Final = "rounds.jsonl"
_DAMAGE: Final = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class ClassCounts:
    """Images of every class at every client; only a simulation can know them.

    Attributes
    ----------
    classes : tuple of str
    real, synthetic : array of int, shape (K, C)
    """

    classes: tuple[str, ...]
    real: NDArray[np.int64]
    synthetic: NDArray[np.int64]


@dataclass(frozen=True)
class Run:
    """The record of one run.

    Attributes
    ----------
    directory : Path
    settings : Settings
        As resolved by the run, without its name.
    summary, manifest, plan : dict
        As the files hold them; empty where the run did not get that far.
    rounds : tuple of dict
        The lines of ``rounds.jsonl``; the initial model's first. A round in which the run failed
        is the last, without an accuracy.
    counts : ClassCounts or None
        None for a deployed run, and for one that ``flwr run`` started.
    generator_rounds : tuple of dict
        The lines of ``generator.jsonl``, where the clients trained the generator.
    copies : dict
        What they found of their own images in it; empty where it did not get that far.
    """

    directory: Path
    settings: Settings
    summary: dict[str, Any]
    manifest: dict[str, Any]
    plan: dict[str, Any]
    rounds: tuple[dict[str, Any], ...]
    counts: ClassCounts | None
    generator_rounds: tuple[dict[str, Any], ...] = ()
    copies: dict[str, Any] = field(default_factory=dict)

    @property
    def completed(self) -> bool:
        """Whether it ran to its end."""
        return self.summary.get("status") == "completed"

    @property
    def interrupted(self) -> bool:
        """Whether it was ended by whoever had started it, and did not fail."""
        return self.summary.get("reason") == INTERRUPTED

    @property
    def accuracies(self) -> list[float]:
        """Test accuracy after rounds 1 to R."""
        return [line["accuracy"] for line in self.trained]

    @property
    def trained(self) -> tuple[dict[str, Any], ...]:
        """The lines of rounds 1 to R that came to their end."""
        return tuple(line for line in self.rounds if line["round"] > 0 and "accuracy" in line)

    @property
    def synthetic(self) -> int:
        """Synthetic images of all clients."""
        return int(self.plan.get("synthetic", 0))

    @property
    def work(self) -> list[int]:
        """Images that all clients have trained on after rounds 1 to R, each as often as used."""
        images = {
            client["partition-id"]: client["num-examples"] + client["synthetic"]
            for client in self.plan.get("clients", [])
        }
        rounds = (
            sum(images.get(each["partition"], 0) for each in line.get("participants", []))
            for line in self.trained
        )
        return [self.settings.local_epochs * total for total in accumulate(rounds)]

    def seconds(self, phase: str) -> float:
        """Return how long a phase took: ``load``, ``prepare`` or ``train``."""
        return float(self.summary.get("seconds", {}).get(phase, 0.0))

    def rounds_to(self, target: float) -> int | None:
        """Return the first round whose test accuracy reaches a target; None if none does."""
        reached = (n for n, accuracy in enumerate(self.accuracies, 1) if accuracy >= target)
        return next(reached, None)


def is_run(directory: Path) -> bool:
    """Tell whether a directory is a run's."""
    return (directory / "config.toml").is_file() and (directory / "summary.json").is_file()


def read_run(directory: Path) -> Run:
    """Read the directory of a run.

    Raises
    ------
    UserError
        It is not one, or a file in it is damaged.
    """
    if not is_run(directory):
        raise UserError(f"{directory} is not a run's directory: no config.toml and summary.json.")
    parts = {name: _part(directory, file, read) for name, (file, read) in _PARTS.items()}
    run = Run(directory=directory, **parts)
    if run.completed and not run.settings.generator_only:
        _part(directory, "summary.json", lambda _: check_results(run.summary))
        _part(directory, _ROUNDS, lambda _: check_length(len(run.trained), run.settings.rounds))
    return run


def _part(directory: Path, file: str, read: Callable[[Path], Any]) -> Any:
    try:
        return read(directory / file)
    except (UserError, *_DAMAGE) as error:
        raise UserError(
            f"The run in {directory} cannot be read: {file}: {first_line(error)}."
        ) from error


def write_counts(directory: Path, counts: ClassCounts) -> None:
    """Keep the counts of a simulated run beside its record."""
    content = {
        "classes": list(counts.classes),
        "real": counts.real.tolist(),
        "synthetic": counts.synthetic.tolist(),
    }
    write_text(directory / _COUNTS, json.dumps(content) + "\n")


def _read_counts(path: Path) -> ClassCounts | None:
    content = _json(path)
    if not content:
        return None
    real, synthetic = (np.array(content[name], np.int64) for name in ("real", "synthetic"))
    classes = tuple(map(str, content["classes"]))
    if real.ndim != 2 or real.shape != synthetic.shape or real.shape[1] != len(classes):
        raise ValueError("it holds tables of different shapes")
    if min(real.min(initial=0), synthetic.min(initial=0)) < 0:
        raise ValueError("it holds a negative count")
    return ClassCounts(classes, real, synthetic)


def _read_settings(path: Path) -> Settings:
    return Settings.parse(read_toml(path))


def _read_rounds(path: Path) -> tuple[dict[str, Any], ...]:
    lines = read_lines(path)
    check_rounds(lines)
    return tuple(lines)


def _read_generator_rounds(path: Path) -> tuple[dict[str, Any], ...]:
    lines = read_lines(path)
    check_generator_rounds(lines)
    return tuple(lines)


def _checked(check: Callable[[Mapping[str, Any]], None]) -> Callable[[Path], dict[str, Any]]:
    def read(path: Path) -> dict[str, Any]:
        content = _json(path)
        if path.is_file():
            check(content)
        return content

    return read


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content = read_json(path)
    if not isinstance(content, dict):
        raise TypeError("it holds no table")
    return content


_PARTS: Final[dict[str, tuple[str, Callable[[Path], Any]]]] = {
    "settings": ("config.toml", _read_settings),
    "summary": ("summary.json", _checked(check_summary)),
    "manifest": ("manifest.json", _checked(check_manifest)),
    "plan": ("plan.json", _checked(check_plan)),
    "rounds": (_ROUNDS, _read_rounds),
    "counts": (_COUNTS, _read_counts),
    "generator_rounds": ("generator.jsonl", _read_generator_rounds),
    "copies": ("generator-copies.json", _checked(check_copies)),
}
