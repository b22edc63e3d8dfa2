"""What was looked at, and how it is."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fedeas_app.errors import UserError, first_line

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """One line of a diagnosis.

    Attributes
    ----------
    subject : str
        What was looked at.
    status : {"ok", "warning", "problem"}
        A problem keeps a run from starting or ending well; a warning may.
    found : str
    advice : str
        One sentence on what to do, or to know; empty where there is nothing.
    """

    subject: str
    status: Status
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Section:
    """Findings that belong together."""

    title: str
    findings: Sequence[Finding]


def ok(subject: str, found: str, advice: str = "") -> Finding:
    """Return a finding of something that is as it should be."""
    return Finding(subject, "ok", found, advice)


def warning(subject: str, found: str, advice: str) -> Finding:
    """Return a finding of something that may be in the way."""
    return Finding(subject, "warning", found, advice)


def problem(subject: str, found: str, advice: str) -> Finding:
    """Return a finding of something that is in the way."""
    return Finding(subject, "problem", found, advice)


def examined(subject: str, named: str, examine: Callable[[], Finding]) -> Finding:
    """Return what an examination finds, also where it breaks down.

    Parameters
    ----------
    subject : str
    named : str
        What the configuration says of it, for when nothing else is found.
    examine : callable
    """
    try:
        return examine()
    except UserError as error:
        return problem(subject, named, str(error))
    except Exception as error:  # a doctor outlives whatever a broken package raises
        advice = f"Looking at it failed ({type(error).__name__}: {first_line(error)})."
        return problem(subject, named, advice)


def count(sections: Sequence[Section], status: Status) -> int:
    """Return how many findings have a status."""
    return sum(finding.status == status for section in sections for finding in section.findings)


def to_dict(sections: Sequence[Section]) -> dict[str, Any]:
    """Return a diagnosis as JSON has it."""
    return {
        "problems": count(sections, "problem"),
        "warnings": count(sections, "warning"),
        "sections": {
            section.title: [asdict(finding) for finding in section.findings] for section in sections
        },
    }
