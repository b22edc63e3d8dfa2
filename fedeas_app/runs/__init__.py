"""The directory that every run leaves."""

from fedeas_app.runs.record import RunRecord

__all__ = ["RunRecord"]
