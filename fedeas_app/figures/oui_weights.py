"""OUI against weight in a run of FedOUI, with the fitted Beta distribution."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedeas_app.comparison.reading import Comparison
from fedeas_app.figures.arms import Shown, shown_arms
from fedeas_app.figures.picture import Missing, Picture
from fedeas_app.figures.style import Look, Theme, canvas, look
from fedeas_app.figures.typical import FloatArray, Rule, Weighed, rule, weighed
from fedeas_app.runs.reading import Run

_TITLE = "OUI against weight"
_CAPTION = (
    "Round {round} in colour, all rounds faintly. Top: the Beta distribution fitted to the OUI "
    "values (ticks){window}. Middle: the score s = 2 min(F, 1 − F) that it gives, 1 at its median "
    "and towards 0 in either tail. Bottom: each client's weight over its share of the samples; "
    "above 1 it counts for more than in FedAvg, below 1 for less."
)
_RANKS = " No Beta distribution fits this round's values, so ranks take its place."
_ALIKE = " There is a single value of OUI, so nothing is fitted: each score s of this round is 1."
_STRATEGIES = ("fedoui", "fedoui-fedalign")
_MOST_ARMS = 2
_GRID = np.linspace(0.0, 1.0, 501)


def of_run(run: Run) -> Picture | Missing:
    """Return the last round of a FedOUI run among all its rounds."""
    if run.settings.strategy not in _STRATEGIES:
        return Missing(_TITLE, f"The strategy {run.settings.strategy} does not weigh by OUI.")
    rounds = weighed(run)
    if not rounds:
        return Missing(_TITLE, "No round was finished.")
    return _picture(run, rounds)


def of_comparison(comparison: Comparison) -> list[Picture | Missing]:
    """Return the figure of the first run of each arm that weighs by OUI, of two arms at most."""
    arms = [arm for arm in shown_arms(comparison) if arm.runs[0].settings.strategy in _STRATEGIES]
    if not arms:
        return [Missing(_TITLE, "No arm with a completed run weighs by OUI.")]
    left = len(arms) - _MOST_ARMS
    more = f" Not shown: {left:,} more of the arms that weigh by OUI." if left > 0 else ""
    return [_of_arm(number, arm, more) for number, arm in enumerate(arms[:_MOST_ARMS], 1)]


def _of_arm(number: int, arm: Shown, more: str) -> Picture | Missing:
    run = arm.runs[0]
    made = of_run(run)
    title = f"{_TITLE}: {arm.label}"
    if isinstance(made, Missing):
        return replace(made, title=title)
    cell = f"The run {run.directory.name}, with seed {run.settings.seed}."
    caption = f"{cell} {made.caption}{more}"
    return replace(made, name=f"{made.name}-{number}", title=title, caption=caption)


def _picture(run: Run, rounds: Sequence[Weighed]) -> Picture:
    judged_by = rule(rounds, run.settings.oui_window)
    return Picture(
        "oui-weights",
        _TITLE,
        _caption(run, rounds[-1], judged_by),
        _alt(rounds[-1], judged_by),
        lambda theme: _draw(theme, rounds, judged_by),
    )


def _caption(run: Run, last: Weighed, judged_by: Rule) -> str:
    window = run.settings.oui_window
    of = f" of the last {window} rounds" if window > 1 else ""
    caption = _CAPTION.format(round=last.server_round, window=of)
    if run.settings.oui_smoothing:
        caption += " OUI is each client's running mean."
    return caption + _instead(judged_by, _ALIKE, _RANKS)


def _instead(judged_by: Rule, alike: str, ranks: str) -> str:
    """Return what is to be said where no Beta was fitted; nothing where one was."""
    if judged_by.fit:
        return ""
    return alike if judged_by.alike else ranks


def _alt(last: Weighed, judged_by: Rule) -> str:
    fit = judged_by.fit
    none = _instead(judged_by, "a single value, no Beta", "ranks, no Beta")
    law = f"Beta({fit.alpha:.2f}, {fit.beta:.2f}) by {fit.method}" if fit else none
    clients = "; ".join(
        f"OUI {value:.3f}: score {score:.2f}, weight {factor:.2f} times its share"
        for value, score, factor in zip(last.values, last.scores, last.factors, strict=True)
    )
    return f"Round {last.server_round}, {law}. {clients}."


def _draw(theme: Theme, rounds: Sequence[Weighed], judged_by: Rule) -> Figure:
    figure, (density, score, factor) = canvas(theme, 5.6, rows=3, sharex=True)
    style, last = look(theme, 0), rounds[-1]
    _draw_density(density, theme, last, judged_by)
    score.plot(_GRID, judged_by.curve(_GRID), color=style.color, linewidth=1.7)
    _scatter(score, theme, rounds, [each.scores for each in rounds])
    _scatter(factor, theme, rounds, [each.factors for each in rounds])
    factor.axhline(1.0, color=theme.neutral, linestyle="--", linewidth=1.2)
    score.set(ylabel="score s", ylim=(-0.05, 1.08))
    factor.set(ylabel="weight / share", ylim=(0, None), xlabel="OUI", xlim=_limits(rounds))
    figure.align_ylabels()
    return figure


def _draw_density(axes: Axes, theme: Theme, last: Weighed, judged_by: Rule) -> None:
    style = look(theme, 0)
    axes.set_ylabel("density")
    if judged_by.fit is None:
        note = _instead(judged_by, "one value: every score is 1", "no Beta fits: ranks are used")
        axes.text(0.5, 0.6, note, transform=axes.transAxes, ha="center", color=theme.text)
        axes.set(ylim=(0, 1), yticks=[])
    else:
        fit = judged_by.fit
        inner = _GRID[1:-1]  # the density may be infinite at 0 and 1
        height = scipy.stats.beta.pdf(inner, fit.alpha, fit.beta)
        axes.plot(inner, height, color=style.color, linewidth=1.7)
        axes.fill_between(inner, height, color=style.color, alpha=0.15, linewidth=0)
        axes.set_ylim(bottom=0)
    _ticks(axes, judged_by.reference, theme, theme.neutral)
    _ticks(axes, last.values, theme, style.color)


def _ticks(axes: Axes, values: FloatArray, theme: Theme, color: str) -> None:
    axes.plot(
        values, np.full(len(values), 0.05), color=color, linestyle="none", marker="|",
        markersize=9, markeredgewidth=1.4, transform=axes.get_xaxis_transform(),
    )  # fmt: skip


def _scatter(
    axes: Axes, theme: Theme, rounds: Sequence[Weighed], heights: Sequence[FloatArray]
) -> None:
    """Draw the participants of all rounds faintly, those of the last one clearly."""
    style: Look = look(theme, 0)
    every = np.concatenate([each.values for each in rounds])
    axes.scatter(every, np.concatenate(heights), s=8, color=theme.neutral, alpha=0.4, linewidths=0)
    axes.scatter(
        rounds[-1].values, heights[-1], s=34, color=style.color, marker=style.marker,
        edgecolors=theme.background, linewidths=0.8, zorder=3,
    )  # fmt: skip


def _limits(rounds: Sequence[Weighed]) -> tuple[float, float]:
    """Return the part of the axis that holds all values, with some room."""
    values = np.concatenate([each.values for each in rounds])
    room = max(0.03, 0.15 * float(np.ptp(values)))
    return max(0.0, float(values.min()) - room), min(1.0, float(values.max()) + room)
