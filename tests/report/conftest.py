"""A quick stand-in for the figures, for tests of everything else."""

import pytest
from matplotlib.figure import Figure
from written import LONG, QUOTE, SCRIPT

from fedeas_app.figures import Missing, Picture


def hostile_picture() -> Picture:
    def paint(theme):
        figure = Figure(figsize=(2, 1), facecolor=theme.background)
        figure.text(0.1, 0.5, SCRIPT, color=theme.text)
        return figure

    return Picture("hostile", SCRIPT, f"{QUOTE} {LONG}", f"{QUOTE} seen", paint)


@pytest.fixture
def quick_figures(monkeypatch):
    """One small figure, and one that is missing, with hostile words."""
    for kind in ("run", "comparison"):
        monkeypatch.setattr(f"fedeas_app.report.page.{kind}_figures", lambda _: [hostile_picture()])
        missing = [Missing(SCRIPT, QUOTE)]
        monkeypatch.setattr(
            f"fedeas_app.report.page.{kind}_missing", lambda _, missing=missing: missing
        )
