"""Client drift in every round."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from fedeas_app.comparison.reading import Comparison
from fedeas_app.figures.arms import Series, Shown, series, shown_arms, shown_run, tell
from fedeas_app.figures.over_rounds import RANGE, Scale, draw_over_rounds, panels_note
from fedeas_app.figures.picture import Missing, Picture
from fedeas_app.figures.style import Theme
from fedeas_app.runs.reading import Run

_TITLE = "Client drift"
_DEFINITION = (
    "How far the clients' updates Δ_k lie from their weighted mean Δ̄: ‖Δ_k − Δ̄‖² / ‖Δ̄‖², itself "
    "the weighted mean over a round's participants. At 0 all clients agree; above 1 they disagree "
    "by more than what is left after averaging."
)
_SCALE = Scale("client drift", logarithmic=True)


def of_run(run: Run) -> Picture | Missing:
    """Return the run's drift with each participant's own."""
    caption = f"{_DEFINITION} Dots are single participants."
    arms = shown_run(run)
    lines = _drifts(arms)
    dots = _participants(run)

    def paint(theme: Theme) -> Figure:
        figure = draw_over_rounds(theme, lines, _SCALE)
        figure.axes[0].scatter(*dots, s=9, color=theme.neutral, alpha=0.45, linewidths=0, zorder=1)
        return figure

    return _missing() if not lines else Picture("drift", _TITLE, caption, _alt(lines), paint)


def of_comparison(comparison: Comparison) -> Picture | Missing:
    """Return a line for each arm."""
    caption = f"{_DEFINITION} Lines are means over seeds. {RANGE}"
    lines = _drifts(shown_arms(comparison))
    if not lines:
        return _missing()
    return Picture(
        "drift",
        _TITLE,
        caption + panels_note(lines),
        _alt(lines),
        lambda theme: draw_over_rounds(theme, lines, _SCALE),
    )


def _missing() -> Missing:
    return Missing(_TITLE, "The record holds no drift above 0; one client alone has none.")


def _drifts(arms: Sequence[Shown]) -> list[Series]:
    """Return drift by arm; a logarithmic axis has no place for 0."""
    return series(arms, lambda line: line.get("drift") or None)


def _participants(run: Run) -> tuple[list[int], list[float]]:
    """Return the rounds and drifts of all participants."""
    found = [
        (line["round"], participant["drift"])
        for line in run.trained
        for participant in line.get("participants", [])
        if participant.get("drift")
    ]
    return [number for number, _ in found], [value for _, value in found]


def _alt(lines: Sequence[Series]) -> str:
    medians = [(line.label, float(np.nanmedian(line.values))) for line in lines]
    return "Median drift over all rounds: " + tell(
        [(label, value, f"{value:.2f}") for label, value in medians]
    )
