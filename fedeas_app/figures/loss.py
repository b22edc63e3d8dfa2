"""Training and test loss over rounds of one run."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedeas_app.figures.arms import Series, Shown, measured_on, series
from fedeas_app.figures.over_rounds import Scale, draw_over_rounds
from fedeas_app.figures.picture import Missing, Picture
from fedeas_app.runs.reading import Run

_TITLE = "Loss over rounds"
_CAPTION = (
    "Cross-entropy of the global model on {place} after each round, and the weighted mean of what "
    "the clients' own training reached in it. Training loss far below test loss means that local "
    "models fit their own skewed data rather than the task."
)
_KEYS = {"loss": "test", "train-loss": "training (clients)"}


def of_run(run: Run) -> Picture | Missing:
    """Return the run's two curves."""
    lines = [line for index, key in enumerate(_KEYS) for line in _series(run, index, key)]
    if not lines:
        return Missing(_TITLE, "No round was finished.")
    ends = ", ".join(f"{line.label} {line.values[0, -1]:.3f}" for line in lines)
    return Picture(
        "loss",
        _TITLE,
        _CAPTION.format(place=measured_on([run])),
        f"Loss after the last round: {ends}.",
        lambda theme: draw_over_rounds(theme, lines, Scale("cross-entropy", lowest=0)),
    )


def _series(run: Run, index: int, key: str) -> list[Series]:
    def read(line: Mapping[str, Any]) -> float | None:
        return line.get(key)

    return [
        replace(found, index=index) for found in series([Shown(index, _KEYS[key], (run,))], read)
    ]
