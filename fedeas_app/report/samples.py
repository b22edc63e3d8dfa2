"""The sheet of what a run generated, or a sentence why there is none."""

import struct

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
    content = path.read_bytes() if path.is_file() else b""
    if not content:
        return SampleSheet(absent=_why_not(run))
    if not content.startswith(_SIGNATURE) or not _HEADER.size <= len(content) <= _LARGEST:
        return SampleSheet(absent=f"{SAMPLES} is not what the run wrote there.")
    width, height = _HEADER.unpack_from(content)
    classes = [str(name) for name in run.manifest.get("classes", [])][:MOST_CLASSES]
    return SampleSheet(data_uri(content, "image/png"), width, height, classes)


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
