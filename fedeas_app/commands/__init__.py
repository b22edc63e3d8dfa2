"""The command line: one file for each verb of ``fedeas``."""

from fedeas_app.commands.main import app

__all__ = ["app"]
