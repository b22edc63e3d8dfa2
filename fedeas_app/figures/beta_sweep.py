"""What β buys: accuracy against β, for arms that differ in nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedeas_app.comparison.reading import Arm, Comparison
from fedeas_app.figures.arms import deviation, spread
from fedeas_app.figures.picture import Missing, Picture
from fedeas_app.figures.style import Theme, canvas, legend_below, legend_height, look
from fedeas_app.settings import Value

_TITLE = "Accuracy against β"
_CAPTION = (
    "Final test accuracy and AUC (the mean height of the accuracy curve) against β, the strength "
    "of the synthesis, where nothing else differs: the mean over seeds, with bars of one standard "
    "deviation. Lines without points make nothing (none) or fill every class up (full)."
)
_MEASURES = {"final": "final accuracy (%)", "auc": "AUC (%)"}
_BOUNDS = {"none": ":", "full": "-."}


@dataclass(frozen=True)
class Sweep:
    """Arms that differ in β alone.

    Attributes
    ----------
    label : str
        What they have in common.
    betas : tuple of float
        Ascending.
    arms : tuple of Arm
        One for each β.
    bounds : dict
        The arms of the policies none and full that are like them otherwise.
    """

    label: str
    betas: tuple[float, ...]
    arms: tuple[Arm, ...]
    bounds: dict[str, Arm]


def of_comparison(comparison: Comparison) -> Picture | Missing:
    """Return a line for each group of arms that differ in β alone."""
    found = sweeps(comparison)
    if not found:
        return Missing(_TITLE, "No arms with finished runs differ in β alone.")
    alt = "Final test accuracy in per cent by β: " + "; ".join(map(_words, found)) + "."
    return Picture("beta-sweep", _TITLE, _CAPTION, alt, lambda theme: _draw(theme, found))


def sweeps(comparison: Comparison) -> list[Sweep]:
    """Return the groups of at least two arms that differ in β alone."""
    groups: dict[Any, list[tuple[float, Arm]]] = {}
    for arm in comparison.arms:
        beta = arm.values.get("beta")
        if arm.runs and isinstance(beta, int | float):
            groups.setdefault(_rest(arm, "beta"), []).append((float(beta), arm))
    return [_sweep(comparison, group) for group in groups.values() if len(group) > 1]


def _sweep(comparison: Comparison, group: Sequence[tuple[float, Arm]]) -> Sweep:
    betas, arms = zip(*sorted(group, key=lambda pair: pair[0]), strict=True)
    return Sweep(_label(arms[0]) or _policy(arms[0]), betas, arms, _bounds(comparison, arms))


def _label(arm: Arm) -> str:
    return " ".join(word for word in arm.label.split(" ") if not word.startswith("β="))


def _bounds(comparison: Comparison, arms: Sequence[Arm]) -> dict[str, Arm]:
    alike = _rest(arms[0], "beta", "policy")
    return {
        _policy(arm): arm
        for arm in comparison.arms
        if arm.runs and _policy(arm) in _BOUNDS and _rest(arm, "beta", "policy") == alike
    }


def _rest(arm: Arm, *without: str) -> frozenset[tuple[str, Value]]:
    """Return what an arm may have in common with others."""
    return frozenset(item for item in arm.values.items() if item[0] not in without)


def _policy(arm: Arm) -> str:
    return arm.runs[0].settings.policy


def _values(arm: Arm, measure: str) -> list[float]:
    return [100 * run.summary[measure] for run in arm.runs]


def _words(sweep: Sweep) -> str:
    pairs = zip(sweep.betas, sweep.arms, strict=True)
    told = [f"β = {beta:g}: {spread(_values(arm, 'final'))}" for beta, arm in pairs]
    bounds = [f"{name}: {spread(_values(arm, 'final'))}" for name, arm in sweep.bounds.items()]
    return f"{sweep.label}: {', '.join(told + bounds)}"


def _draw(theme: Theme, found: Sequence[Sweep]) -> Figure:
    bounds = _shared_bounds(found)
    names = [sweep.label for sweep in found] + [arm.label for arm, _ in bounds]
    figure, axes = canvas(theme, 4.6 + legend_height(names), rows=2, sharex=True)
    for each, measure in zip(axes, _MEASURES, strict=True):
        handles = [_draw_sweep(each, theme, n, sweep, measure) for n, sweep in enumerate(found)]
        handles += [_draw_bound(each, theme, arm, users, measure) for arm, users in bounds]
        each.set_ylabel(_MEASURES[measure])
    axes[-1].set_xlabel("β")
    legend_below(figure, theme, handles)
    return figure


def _shared_bounds(found: Sequence[Sweep]) -> list[tuple[Arm, list[int]]]:
    """Return each bound once, with the places of the sweeps that it belongs to."""
    users: dict[str, tuple[Arm, list[int]]] = {}
    for index, sweep in enumerate(found):
        for arm in sweep.bounds.values():
            users.setdefault(arm.label, (arm, []))[1].append(index)
    return list(users.values())


def _draw_sweep(axes: Axes, theme: Theme, index: int, sweep: Sweep, measure: str) -> Any:
    style = look(theme, index)
    values = [_values(arm, measure) for arm in sweep.arms]
    return axes.errorbar(
        sweep.betas, [np.mean(each) for each in values], yerr=[deviation(each) for each in values],
        color=style.color, linestyle=style.linestyle, marker=style.marker, markersize=5,
        linewidth=1.7, elinewidth=1.3, capsize=2.5, label=sweep.label,
    )  # fmt: skip


def _draw_bound(axes: Axes, theme: Theme, arm: Arm, users: Sequence[int], measure: str) -> Any:
    """Draw a bound in the colour of its sweep, or in no sweep's if several have it."""
    color = look(theme, users[0]).color if len(users) == 1 else theme.neutral
    mean = float(np.mean(_values(arm, measure)))
    dashes = _BOUNDS[_policy(arm)]
    return axes.axhline(mean, color=color, linestyle=dashes, linewidth=1.3, label=arm.label)
