"""The sheet of what a run generated, or a sentence why there is none."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedeas_app.report.drawings import data_uri
from fedeas_app.report.parts import SampleSheet
from fedeas_app.runs.reading import Run
from fedeas_app.runs.samples import MOST_CLASSES, SAMPLES

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER = struct.Struct(">8x8xII")  # signature, length and name of the first chunk, width, height
_LARGEST = 8_000_000  # bytes


def sample_sheet(run: Run) -> SampleSheet:
    """Return the samples that the run kept."""
    path = run.directory / SAMPLES
    if not path.is_file() or not path.stat().st_size:
        return SampleSheet(absent=_why_not(run))
    return sheet_of(path, run.manifest.get("classes", []))


def sheet_of(path: Path, classes: Sequence[Any]) -> SampleSheet:
    """Return a picture with a row for each of the first classes, or say that it is none."""
    content = path.read_bytes()
    if not content.startswith(_SIGNATURE) or not _HEADER.size <= len(content) <= _LARGEST:
        return SampleSheet(absent=f"{path.name} is not what the run wrote there.")
    width, height = _HEADER.unpack_from(content)
    names = [str(name) for name in classes[:MOST_CLASSES]]
    return SampleSheet(data_uri(content, "image/png"), width, height, names)


def _why_not(run: Run) -> str:
    if run.settings.policy == "none":
        return "Nothing was generated: the policy is none, and clients train on real images alone."
    if run.plan and not run.synthetic:
        return "Nothing was generated: the policy wants no synthetic image on this partition."
    if not run.completed:
        return "Samples are kept when a run completes, and this one did not."
    if run.counts is None:
        return (
            "Images never leave a client. A simulation by fedeas run has all clients on one "
            "machine and may look at them; this run was not one."
        )
    return "The images were no longer in the cache when the run ended."
