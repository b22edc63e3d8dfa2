"""Which figures there are, in the order of a report."""

from collections.abc import Sequence

from fedeas_app.comparison.reading import Comparison
from fedeas_app.figures import (
    accuracy,
    beta_sweep,
    budget_map,
    concentration,
    diminishing,
    drift,
    effective_clients,
    generator_loss,
    loss,
    oui_weights,
    tradeoff,
    work,
)
from fedeas_app.figures.picture import Missing, Picture
from fedeas_app.runs.reading import Run

_OF_RUN = (
    accuracy.of_run,
    loss.of_run,
    oui_weights.of_run,
    effective_clients.of_run,
    drift.of_run,
    budget_map.of_run,
    concentration.of_run,
    diminishing.of_run,
)
_OF_COMPARISON = (
    accuracy.of_comparison,
    work.of_comparison,
    tradeoff.of_comparison,
    beta_sweep.of_comparison,
    effective_clients.of_comparison,
    drift.of_comparison,
    budget_map.of_comparison,
    concentration.of_comparison,
    diminishing.of_comparison,
)


def run_figures(run: Run) -> list[Picture]:
    """Return the figures that a run's record allows."""
    return _pictures(_made_of_run(run))


def run_missing(run: Run) -> list[Missing]:
    """Return the figures that a run's record does not allow, and why."""
    return _missing(_made_of_run(run))


def comparison_figures(comparison: Comparison) -> list[Picture]:
    """Return the figures that a comparison allows."""
    return _pictures(_made(comparison))


def comparison_missing(comparison: Comparison) -> list[Missing]:
    """Return the figures that a comparison does not allow, and why."""
    return _missing(_made(comparison))


def _made_of_run(run: Run) -> list[Picture | Missing]:
    """Return a run's figures; that of a generator first, where the clients trained one."""
    of_generator = [generator_loss.of_run(run)] if run.generator_rounds else []
    of_rounds = [] if run.settings.generator_only else [make(run) for make in _OF_RUN]
    return [*of_generator, *of_rounds]


def _made(comparison: Comparison) -> list[Picture | Missing]:
    """Return a comparison's figures; those by OUI, one for each of some arms, come last."""
    return [*(make(comparison) for make in _OF_COMPARISON), *oui_weights.of_comparison(comparison)]


def _pictures(made: Sequence[Picture | Missing]) -> list[Picture]:
    return [each for each in made if isinstance(each, Picture)]


def _missing(made: Sequence[Picture | Missing]) -> list[Missing]:
    return [each for each in made if isinstance(each, Missing)]
