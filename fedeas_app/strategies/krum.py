"""Krum (Blanchard et al., arXiv 1703.02757)."""

from fedeas_app.settings import Settings
from fedeas_app.strategies.multikrum import MultiKrum


class Krum(MultiKrum):
    """Take the model of the one client that lies nearest to the others."""

    @staticmethod
    def wanted(settings: Settings) -> int:
        """Return one, whatever ``krum-selected`` says."""
        return 1
