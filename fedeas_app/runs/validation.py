"""What the files of a run's record have to hold, so that whoever reads them can rely on it."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Final

_RESULTS: Final = ("final", "best", "auc")
_COUNTS: Final = ("real", "synthetic", "made")
_CLIENT: Final = (
    "partition-id", "num-examples", "synthetic", "made", "imbalance-before", "imbalance-after",
    "seconds",
)  # fmt: skip
_COPIES: Final = ("checked", "copies")
_MEASURES: Final = ("loss", "seconds", "train-loss", "effective-clients", "drift")


def check_summary(summary: Mapping[str, Any]) -> None:
    """Check ``summary.json``.

    Raises
    ------
    TypeError, ValueError
        Says what is wrong, as all checks here do.
    """
    status = summary.get("status", "")
    if not isinstance(status, str):
        raise TypeError(f"status is {status!r}, not a text")
    for name, value in _table(summary, "seconds").items():
        _check_within(name, value, 0)


def check_results(summary: Mapping[str, Any]) -> None:
    """Check the results in ``summary.json``, which are there once rounds are completed."""
    for name in _RESULTS:
        _check_within(name, summary.get(name), 0, 1)


def check_manifest(manifest: Mapping[str, Any]) -> None:
    """Check ``manifest.json``."""
    for name in ("versions", "machine", "digests", "scenario"):
        _table(manifest, name)
    _list(manifest, "classes")


def check_plan(plan: Mapping[str, Any]) -> None:
    """Check ``plan.json``."""
    for name in _COUNTS:
        _check_within(name, plan.get(name, 0), 0)
    for client in _tables(plan, "clients"):
        for name in _CLIENT:
            _check_within(f"{name} of a client", client.get(name), 0)


def check_rounds(lines: Sequence[Any]) -> None:
    """Check ``rounds.jsonl``: rounds one after the other, from 1 or from the initial model's 0."""
    for line in lines:
        if not isinstance(line, dict):
            raise TypeError(f"{line!r} is no round")
        _check_round(line)
    if any("accuracy" not in line for line in lines[:-1]):
        raise ValueError("a round without an accuracy is not the last")
    first = lines[0]["round"] if lines else 0
    if first > 1 or any(line["round"] != number for number, line in enumerate(lines, first)):
        raise ValueError("its rounds are not one after the other")


def check_length(trained: int, rounds: int) -> None:
    """Check that a completed run has all its rounds."""
    if trained < rounds:
        raise ValueError(f"the run is completed, but only {trained} of {rounds} rounds are there")


def check_generator_rounds(lines: Sequence[Any]) -> None:
    """Check ``generator.jsonl``: rounds one after the other, from 1."""
    for number, line in enumerate(lines, 1):
        if not isinstance(line, dict) or _told_round(line) != number:
            raise ValueError(f"{line!r} is not its round {number}")
        _check_number("seconds", line.get("seconds"))
        if line.get("loss") is not None:
            _check_number("loss", line["loss"])
        for name, value in _table(line, "weights").items():
            int(name)
            _check_within(f"the weight of client {name}", value, 0, 1)
        _table(line, "failures")


def _told_round(line: Mapping[str, Any]) -> int:
    """Return the round of a line; -1 where that is no whole number (true equals 1)."""
    told = line.get("round")
    return told if type(told) is int else -1


def check_copies(content: Mapping[str, Any]) -> None:
    """Check ``generator-copies.json``."""
    for found in (content, *_tables(content, "clients")):
        for name in _COPIES:
            _check_within(name, found.get(name), 0)
    _table(content, "failures")


def _check_round(line: Mapping[str, Any]) -> None:
    if type(line.get("round")) is not int:
        raise TypeError(f"round is {line.get('round')!r}, not a number")
    _check_within("round", line["round"], 0)
    if "accuracy" in line or "failures" not in line:  # else the run failed in this round
        _check_within("accuracy", line.get("accuracy"), 0, 1)
    for name in _MEASURES:
        if line.get(name) is not None:
            _check_number(name, line[name])
    for participant in _tables(line, "participants"):
        _check_within("partition", participant.get("partition"), 0)
        for name, value in participant.items():
            _check_number(f"{name} of a participant", value)
    for partition in _table(line, "failures"):
        int(partition)


def _check_number(name: str, value: Any) -> None:
    """Refuse what is no number; NaN is one, as a loss may be."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is {value!r}, not a number")


def _check_within(name: str, value: Any, least: float, most: float = inf) -> None:
    _check_number(name, value)
    if not least <= value <= most:
        raise ValueError(f"{name} is {value!r}, which cannot be")


def _table(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = content.get(name, {})
    if not isinstance(found, dict):
        raise TypeError(f"{name} is {found!r}, not a table")
    return found


def _list(content: Mapping[str, Any], name: str) -> Sequence[Any]:
    found: Sequence[Any] = content.get(name, [])
    if not isinstance(found, list):
        raise TypeError(f"{name} is {found!r}, not a list")
    return found


def _tables(content: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    found = _list(content, name)
    if not all(isinstance(each, dict) for each in found):
        raise TypeError(f"{name} is not a list of tables")
    return found
