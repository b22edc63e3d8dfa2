"""What a comparison leaves beside its cells: ``comparison.json``, ``table.csv``, ``table.md``."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from fedeas_app.comparison.agreement import disagreements
from fedeas_app.comparison.cells import matters
from fedeas_app.comparison.design import Design
from fedeas_app.comparison.reading import INDEX, Arm, Comparison, read_comparison
from fedeas_app.comparison.summary import PHASES, generating
from fedeas_app.comparison.table import markdown
from fedeas_app.files import write_text
from fedeas_app.runs.reading import Run

CSV = "table.csv"
MARKDOWN = "table.md"
_ALWAYS = ("strategy", "policy", "alpha", "beta")


def write_comparison(directory: Path, plan: Design, failed: Mapping[str, str]) -> Comparison:
    """Write the index and the tables of what there is by now, each whole or not at all.

    Parameters
    ----------
    directory : Path
    plan : Design
    failed : mapping
        Why a cell ended early, by its name.
    """
    write_text(directory / INDEX, json.dumps(_index(plan, failed), indent=2) + "\n")
    comparison = read_comparison(directory)
    write_text(directory / CSV, csv_text(comparison))
    write_text(directory / MARKDOWN, markdown(comparison, disagreements(comparison)))
    return comparison


def csv_text(comparison: Comparison) -> str:
    """Return a line for every cell that has run, with what it takes to analyse it elsewhere."""
    rows = [*_rows(comparison)]
    names = dict.fromkeys(name for row in rows for name in row)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(names), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _index(plan: Design, failed: Mapping[str, str]) -> dict[str, Any]:
    return {
        "varied": list(plan.varied),
        "baseline": plan.baseline,
        "target": plan.target,
        "arms": [
            {
                "label": arm.label,
                "values": arm.values,
                "baseline": arm.baseline,
                "cells": [{"name": cell.name, "seed": cell.seed} for cell in arm.cells],
            }
            for arm in plan.arms
        ],
        "failed": dict(failed),
    }


def _rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    for arm in comparison.arms:
        for run in arm.runs:
            yield _row(run, arm, comparison)
    for cell in comparison.failed:
        values = comparison.arm(cell.label).values
        row = {"cell": cell.name, "arm": cell.label, "status": "failed", "seed": cell.seed}
        yield row | values | {"reason": cell.reason}


def _row(run: Run, arm: Arm, comparison: Comparison) -> dict[str, Any]:
    row = {"cell": run.directory.name, "arm": arm.label, "status": "completed"}
    target = comparison.target
    reached = run.rounds_to(target) if target is not None else None
    return row | _settings(run, comparison) | _results(run) | {"rounds-to-target": reached}


def _settings(run: Run, comparison: Comparison) -> dict[str, Any]:
    flat = run.settings.to_flat()
    keys = dict.fromkeys(("seed", *_ALWAYS, *comparison.varied, "num-clients", "rounds"))
    return {key: flat[key] if matters(key, run.settings) else None for key in keys}


def _results(run: Run) -> dict[str, Any]:
    return {
        **{name: run.summary.get(name) for name in ("final", "best", "auc", "failures")},
        "real": run.plan.get("real"),
        "synthetic": run.synthetic,
        "made": run.plan.get("made"),
        "imbalance-before": run.plan.get("imbalance-before"),
        "imbalance-after": run.plan.get("imbalance-after"),
        **{f"{name}-seconds": run.seconds(name) for name in PHASES},
        "generating-seconds": generating(run),
        **{name: _mean_over_rounds(run, name) for name in ("effective-clients", "drift")},
    }


def _mean_over_rounds(run: Run, name: str) -> float | None:
    values = [line[name] for line in run.trained if line.get(name) is not None]
    return fmean(values) if values else None
