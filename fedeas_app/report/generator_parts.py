"""What there is to say of a generator that the clients trained, as facts, tables and pictures."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedeas_app.report.parts import Fact, SampleSheet, Table
from fedeas_app.report.run_parts import failures_of, percent_short, short
from fedeas_app.report.samples import sheet_of
from fedeas_app.runs.reading import Run
from fedeas_app.settings import Settings
from fedeas_app.wording import NONE, number, plural, seconds, whole

_PLACES = ("generator/samples", "generator.training/samples")  # finished, and in training
_MOST_ROWS = 2000  # of a table


def facts(run: Run) -> list[Fact]:
    """Return how the generator was trained and what came of it; nothing before its first round."""
    lines, settings = run.generator_rounds, run.settings
    if not lines:
        return []
    wanted = plural(settings.generator_epochs, "local epoch")
    return [
        Fact("Rounds", f"{len(lines):,} of {settings.generator_rounds:,}", f"{wanted} each"),
        Fact("Clients a round", percent_short(settings.generator_fraction), _took_part(run)),
        Fact("Averaged by", settings.generator_strategy, _variants(settings)),
        Fact("Loss", number(lines[-1].get("loss"), ".4f"), _first_loss(run)),
        _copies(run),
        Fact("Replies that did not count", whole(sum(map(_lost, lines)))),
        Fact("Time", seconds(sum(line["seconds"] for line in lines)), "of its rounds"),
    ]


def _took_part(run: Run) -> str:
    counts = [len(line.get("weights", {})) for line in run.generator_rounds]
    least, most = min(counts), max(counts)
    return f"{whole(most)} took part" if least == most else f"{least:,} to {most:,} took part"


def _variants(settings: Settings) -> str:
    """Say what differs from plain averaging of the clients' whole updates."""
    parts = {
        "embeddings over those that moved them": settings.generator_embeddings == "movers",
        f"FedProx's μ = {settings.generator_mu:g}": settings.generator_mu > 0,
        f"clip-norm {settings.generator_clip_norm}": settings.generator_clip_norm != "off",
        f"sent as {settings.generator_transfer}": settings.generator_transfer != "float32",
        f"noise for {settings.privacy} privacy": settings.privacy != "none",
    }
    return ", ".join(text for text, applies in parts.items() if applies)


def _first_loss(run: Run) -> str:
    return f"{number(run.generator_rounds[0].get('loss'), '.4f')} in round 1"


def _copies(run: Run) -> Fact:
    if not run.copies:
        return Fact("Copies", NONE, "nobody has looked for them yet")
    if not run.copies["checked"]:
        return Fact("Copies", NONE, "nobody looked for them")
    found = f"{whole(run.copies['copies'])} of {whole(run.copies['checked'])}"
    return Fact("Copies", found, "images held against clients' own")


def _lost(line: Mapping[str, Any]) -> int:
    return len(line.get("failures", {}))


def tables(run: Run) -> list[Table]:
    """Return every round, the replies that did not count, and what each client found."""
    caption, source = "Replies that did not count, with the generator", "generator.jsonl"
    failures = failures_of(run.generator_rounds, caption, source)
    return [_rounds(run), failures, _copies_table(run)]


def _rounds(run: Run) -> Table:
    headers = ("round", "loss", "clients", "largest weight", "failures", "seconds")
    rows = [_round_row(line) for line in run.generator_rounds[:_MOST_ROWS]]
    return Table("Rounds of the generator", headers, rows)


def _round_row(line: Mapping[str, Any]) -> list[str]:
    weights = line.get("weights", {})
    return [
        str(line["round"]),
        number(line.get("loss"), ".4f"),
        whole(len(weights)),
        number(max(weights.values(), default=None), ".2f"),
        whole(_lost(line)),
        number(line["seconds"], ".1f"),
    ]


def _copies_table(run: Run) -> Table:
    rows = [
        [str(found.get("partition_id")), whole(found["checked"]), whole(found["copies"])]
        for found in run.copies.get("clients", [])[:_MOST_ROWS]
    ]
    left_out = run.copies.get("failures", {}).items()
    notes = [f"Without an answer: {whole(count)}. {short(reason)}" for reason, count in left_out]
    headers = ("client", "images drawn", "copies of own images")
    return Table("What clients found of their images", headers, rows, notes=notes)


def sheets(run: Run) -> list[SampleSheet]:
    """Return what it drew in the first, the middle and the last of the rounds with a picture."""
    found = [path for place in _PLACES for path in sorted((run.directory / place).glob("*.png"))]
    shown = dict.fromkeys([found[0], found[(len(found) - 1) // 2], found[-1]]) if found else {}
    return [_sheet(run, path) for path in shown]


def _sheet(run: Run, path: Path) -> SampleSheet:
    stem = path.stem.removeprefix("round-")
    name = f"Round {int(stem)}" if stem.isdecimal() else path.stem
    return replace(sheet_of(path, run.manifest.get("classes", [])), of=name)
