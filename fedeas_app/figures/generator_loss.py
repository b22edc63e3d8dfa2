"""The loss of a generator over the rounds in which the clients trained it."""

import numpy as np

from fedeas_app.figures.arms import Series
from fedeas_app.figures.over_rounds import Scale, draw_over_rounds
from fedeas_app.figures.picture import Missing, Picture
from fedeas_app.runs.reading import Run
from fedeas_app.wording import plural

_TITLE = "Loss of the generator over its rounds"
_CAPTION = (
    "Mean squared error of the noise that the network finds in the clients' images: the weighted "
    "mean of what their own training reached in each round. It falls on, though slowly, while "
    "images still become better. A gap is a round that did not count."
)
_SCALE = Scale("mean squared error of the noise", lowest=0)


def of_run(run: Run) -> Picture | Missing:
    """Return the curve of a run that trained its generator."""
    losses = [line.get("loss") for line in run.generator_rounds]
    values = np.array([losses], dtype=np.float64)
    known = values[np.isfinite(values)]
    if not known.size:
        return Missing(_TITLE, "No round of the generator counted.")
    line = Series(0, "loss", values)
    rounds = plural(len(losses), "round")
    return Picture(
        "generator-loss",
        _TITLE,
        _CAPTION,
        f"Loss of the generator: {known[0]:.3f} at first, {known[-1]:.3f} after {rounds}.",
        lambda theme: draw_over_rounds(theme, [line], _SCALE),
    )
