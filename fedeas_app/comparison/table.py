"""The tables of a comparison as text, for a terminal and for Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from fedeas_app.budget import TOTAL_POLICIES
from fedeas_app.comparison.labels import unsaid
from fedeas_app.comparison.reading import Comparison
from fedeas_app.comparison.statistics import PairedDifference, Spread
from fedeas_app.comparison.summary import (
    ArmDifference,
    ArmSummary,
    differences,
    shortfall,
    summarise,
)

NOTHING: Final = "–"
_CACHED: Final = "*"

_SPREAD_NOTE: Final = "Mean ± standard deviation over seeds; no ± with a single seed."
_CACHED_NOTE: Final = (
    f"{_CACHED} Images came from the cache, so that this is not the time it takes to make them "
    "(column made)."
)
_SECONDS_NOTE: Final = (
    "generate: the sum of the clients' own times, several of which ran at once; train: from the "
    "first round to the last."
)
_GENERATOR_NOTE: Final = (
    "train generator: the rounds in which the clients train it, until each has it; –: trained by "
    "none, or elsewhere."
)
_START_NOTE: Final = (
    "train: without synthesis it includes the start of the simulation's workers, which is part of "
    "the preparation where images are made."
)
_MATCHED_NOTE: Final = (
    f"Matched budgets: {', '.join(TOTAL_POLICIES)} make as many images as fedeas at the same β."
)
_PAIRED_NOTE: Final = (
    "Differences within a seed, their mean and Student's 95 % interval of it; an interval takes "
    "two seeds. better: seeds in which the arm is above its baseline."
)


@dataclass(frozen=True)
class TextTable:
    """A table as text; the first column is a label, the others are numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = field(default=())


def tables(comparison: Comparison) -> list[TextTable]:
    """Return accuracy, cost, and the differences from the baselines, if there are any."""
    summaries = summarise(comparison)
    compared = differences(comparison)
    return [
        _accuracy(summaries, comparison),
        _cost(summaries, comparison),
        *([_paired(comparison, compared)] if compared else []),
    ]


def markdown(comparison: Comparison, remarks: Sequence[str] = ()) -> str:
    """Return the tables, then remarks and what failed, as Markdown."""
    parts = [_markdown(table) for table in tables(comparison)]
    failed = [f"{cell.name} ({cell.label}): {cell.reason}" for cell in comparison.failed]
    parts += [_list("Not to be trusted", remarks)] if remarks else []
    parts += [_list("Failed", failed)] if failed else []
    return "\n\n".join(parts) + "\n"


def _accuracy(summaries: Sequence[ArmSummary], comparison: Comparison) -> TextTable:
    target, missing = comparison.target, shortfall(comparison)
    reached = () if target is None else (f"rounds to {100 * target:g} %",)
    rows = tuple(
        (
            summary.label,
            str(summary.seeds),
            _spread(summary.final, ".1f", 100),
            _spread(summary.best, ".1f", 100),
            _spread(summary.auc, ".3f"),
            *([_reached(summary)] if reached else []),
        )
        for summary in summaries
    )
    header = ("arm", "seeds", "final (%)", "best (%)", "AUC", *reached)
    notes = (f"{missing}.",) if missing else ()
    return TextTable(
        "Test accuracy", header, rows, (*notes, *_label_notes(comparison), _SPREAD_NOTE)
    )


def _label_notes(comparison: Comparison) -> tuple[str, ...]:
    values = unsaid({arm.label: arm.values for arm in comparison.arms})
    return (f"Where an arm says nothing else: {values}.",) if values else ()


def _cost(summaries: Sequence[ArmSummary], comparison: Comparison) -> TextTable:
    trained = any(summary.training_generator for summary in summaries)
    rows = tuple(
        (
            summary.label,
            _mean(summary.synthetic),
            _mean(summary.made),
            *([_spread(summary.training_generator, ".1f")] if trained else []),
            _generating(summary),
            _spread(summary.training, ".1f"),
        )
        for summary in summaries
    )
    first = ("train generator (s)",) if trained else ()
    header = ("arm", "images", "made", *first, "generate (s)", "train (s)")
    return TextTable("Cost", header, rows, _cost_notes(summaries, comparison))


def _generating(summary: ArmSummary) -> str:
    if summary.synthetic is None or summary.synthetic.mean == 0:
        return NOTHING  # what is measured then is no generating
    return _spread(summary.generating, ".1f") + (_CACHED if _from_cache(summary) else "")


def _cost_notes(summaries: Sequence[ArmSummary], comparison: Comparison) -> tuple[str, ...]:
    policies = {run.settings.policy for arm in comparison.arms for run in arm.runs}
    matched = "fedeas" in policies and bool(policies & set(TOTAL_POLICIES))
    cached = any(map(_from_cache, summaries))
    notes = [
        (True, _SECONDS_NOTE),
        (any(summary.training_generator for summary in summaries), _GENERATOR_NOTE),
        ("none" in policies, _START_NOTE),
        (cached, _CACHED_NOTE),
        (matched, _MATCHED_NOTE),
    ]
    return tuple(note for applies, note in notes if applies)


def _from_cache(summary: ArmSummary) -> bool:
    made, synthetic = summary.made, summary.synthetic
    return made is not None and synthetic is not None and made.mean < synthetic.mean


def _reached(summary: ArmSummary) -> str:
    rounds = summary.rounds_to_target
    if rounds is None:
        return NOTHING
    some = "" if rounds.n == summary.seeds else f" ({rounds.n} of {summary.seeds})"
    return _spread(rounds, ".1f") + some


def _paired(comparison: Comparison, compared: Sequence[ArmDifference]) -> TextTable:
    baseline = comparison.baseline
    title = "Against each arm's baseline" if baseline is None else f"Against {baseline}"
    named = ("baseline",) if baseline is None else ()
    header = ("arm", *named, "seeds", "Δ final (points)", "better", "Δ AUC", "better")
    rows = tuple(
        (row.label, *([row.baseline] if named else []), *_difference_texts(row)) for row in compared
    )
    alone = _without_counterpart(comparison, compared)
    note = (f"Compared with none, for want of a counterpart: {'; '.join(alone)}.",) if alone else ()
    return TextTable(title, header, rows, (_PAIRED_NOTE, *note))


def _without_counterpart(comparison: Comparison, compared: Sequence[ArmDifference]) -> list[str]:
    in_table = {label for row in compared for label in (row.label, row.baseline)}
    return [arm.label for arm in comparison.arms if arm.label not in in_table]


def _difference_texts(row: ArmDifference) -> tuple[str, ...]:
    return (
        str(row.final.n if row.final else 0),
        _difference(row.final, "+.1f", 100),
        _better(row.final),
        _difference(row.auc, "+.3f"),
        _better(row.auc),
    )


def _difference(difference: PairedDifference | None, form: str, factor: float = 1) -> str:
    if difference is None:
        return NOTHING
    mean = _signed(factor * difference.mean, form)
    if difference.interval is None:
        return mean
    low, high = (_signed(factor * end, form) for end in difference.interval)
    return f"{mean} [{low}, {high}]"


def _better(difference: PairedDifference | None) -> str:
    return NOTHING if difference is None else f"{difference.better} of {difference.n}"


def _signed(value: float, form: str) -> str:
    text = f"{value:{form}}"
    if float(text) == 0:  # rounded: neither above nor below
        text = text.lstrip("+-")
    return text.replace("-", "−")


def _spread(spread: Spread | None, form: str, factor: float = 1) -> str:
    if spread is None:
        return NOTHING
    mean = f"{factor * spread.mean:{form}}"
    return mean if spread.std is None else f"{mean} ± {factor * spread.std:{form}}"


def _mean(spread: Spread | None) -> str:
    return NOTHING if spread is None else f"{spread.mean:,.0f}"


def _markdown(table: TextTable) -> str:
    rule = "|---" + "|---:" * (len(table.header) - 1) + "|"
    lines = [_line(table.header), rule, *map(_line, table.rows)]
    return "\n\n".join([f"## {table.title}", "\n".join(lines), *table.notes])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _list(title: str, items: Sequence[str]) -> str:
    lines = (f"* {' '.join(item.split())}" for item in items)
    return f"## {title}\n\n" + "\n".join(lines)
