"""Read the directory of a run; imports nothing heavy, so that commands start at once."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedeas_app.files import write_text


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
    if summary is not None and summary["status"] == "running":
        summary |= {"status": "failed", "reason": reason}
        write_text(directory / "summary.json", json.dumps(summary, indent=2) + "\n")


def summary_line(summary: Mapping[str, Any]) -> str:
    """Return the result of a completed run as one line."""
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in summary["seconds"].items())
    failures = summary.get("failures", 0)
    lost = f" {failures} client replies did not count (rounds.jsonl says why)." if failures else ""
    return (
        f"Test accuracy: final {summary['final']:.2%}, best {summary['best']:.2%}, "
        f"AUC {summary['auc']:.4f}.{lost} Time: {seconds}."
    )
