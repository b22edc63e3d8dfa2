"""What may keep a run from starting: looked at, and nothing changed, started or fetched."""

from collections.abc import Sequence

from fedeas_app.diagnosis.accelerators import look_at_devices
from fedeas_app.diagnosis.findings import Finding, Section, count, to_dict
from fedeas_app.diagnosis.job import look_at_job, look_at_mistakes
from fedeas_app.diagnosis.machine import look_at_machine
from fedeas_app.diagnosis.packages import look_at_versions
from fedeas_app.diagnosis.redaction import redacted
from fedeas_app.diagnosis.superlink import look_at_flower
from fedeas_app.diagnosis.torch_view import ask_torch
from fedeas_app.settings import Settings

__all__ = ["Finding", "Section", "count", "diagnose", "redacted", "to_dict"]


def diagnose(settings: Settings | None, mistakes: Sequence[str] = ()) -> list[Section]:
    """Look at everything.

    Parameters
    ----------
    settings : Settings or None
        None: the configuration cannot be used, and what depends on it is left out.
    mistakes : sequence of str
        Why, a sentence each.
    """
    torch = ask_torch()
    job = look_at_mistakes(mistakes) if settings is None else look_at_job(settings, torch)
    return [
        Section("versions", look_at_versions(torch)),
        Section("machine", look_at_machine(settings)),
        Section("devices", look_at_devices(settings, torch)),
        Section("configuration", job),
        Section("Flower", look_at_flower()),
    ]
