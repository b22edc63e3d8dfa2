"""Read the directory of a run; imports nothing heavy, so that commands start at once."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fedeas_app.files import write_text
from fedeas_app.wording import duration, plural

RESUMING: Final = "resuming"
"""The status of a run that is to go on, until its server says that it is running."""

INTERRUPTED: Final = "interrupted"
KILLED: Final = "the server was ended from outside"
LAPSED: Final = (
    "Flower gave the server up after a minute without a sign of life; the machine had too much to "
    "do, or slept"
)
BROKEN_OFF: Final = (INTERRUPTED, KILLED, LAPSED)
"""The reasons of runs that did not fail, and go on as if nothing had happened."""


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a JSONL file that may be missing or growing."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def read_summary(directory: Path) -> dict[str, Any] | None:
    """Return a run's summary, or None where no run has started."""
    path = directory / "summary.json"
    if not path.is_file():
        return None
    summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return summary


def mark_failed(directory: Path, reason: str) -> None:
    """Note why a run has ended, where its server could not do so itself."""
    summary = read_summary(directory)
    if summary is not None and summary["status"] in ("running", RESUMING):
        _write_summary(directory, summary | {"status": "failed", "reason": reason})


def mark_resuming(directory: Path) -> None:
    """Note that a run is to go on: what had ended it does not count any more."""
    summary = read_summary(directory)
    if summary is not None:
        summary.pop("reason", None)
        _write_summary(directory, summary | {"status": RESUMING})


def _write_summary(directory: Path, summary: Mapping[str, Any]) -> None:
    write_text(directory / "summary.json", json.dumps(summary, indent=2) + "\n")


def summary_line(summary: Mapping[str, Any]) -> str:
    """Return the result of a completed run as one line."""
    seconds = ", ".join(f"{name} {duration(value)}" for name, value in summary["seconds"].items())
    if "final" not in summary:
        return f"The generator is trained. Time: {seconds}."
    failures = summary.get("failures", 0)
    replies = plural(failures, "client reply", "client replies")
    lost = f" {replies} did not count (rounds.jsonl says why)." if failures else ""
    return (
        f"Test accuracy: final {summary['final']:.2%}, best {summary['best']:.2%}, "
        f"AUC {summary['auc']:.4f}.{lost} Time: {seconds}."
    )
