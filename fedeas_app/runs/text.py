"""The plan and the result of a run in words, for Flower's log."""

from collections.abc import Mapping
from logging import INFO
from pathlib import Path
from typing import Any

from flwr.common.logger import log

from fedeas_app.data.remarks import remarks
from fedeas_app.preparation import Plan
from fedeas_app.runs.directory import summary_line
from fedeas_app.settings import Settings
from fedeas_app.wording import plural

_SHOWN = 20


def describe_plan(plan: Plan, settings: Settings) -> None:
    """Log the plan: a line a client (the first ones), then the totals."""
    for line in plan_lines(plan, settings):
        log(INFO, line)


def plan_lines(plan: Plan, settings: Settings) -> list[str]:
    """Return the plan as text."""
    beta = f", β = {plan.beta:g}" if plan.beta else ""
    lines = [
        f"Plan (policy {settings.policy}{beta}):",
        f"{'client':>8} {'real':>8} {'synthetic':>10} {'imbalance':>16} {'seconds':>8}",
    ]
    lines += [
        f"{client.partition_id:>8} {client.num_examples:>8,} {client.synthetic:>10,} "
        f"{client.imbalance_before:>7.3f} → {client.imbalance_after:<6.3f} {client.seconds:>8.1f}"
        for client in plan.clients[:_SHOWN]
    ]
    if len(plan.clients) > _SHOWN:
        more = plural(len(plan.clients) - _SHOWN, "more client")
        lines.append(f"     ... and {more}, all in plan.json")
    return [*lines, *remarks(len(plan.clients), settings), *total_lines(plan)]


def total_lines(plan: Plan) -> list[str]:
    """Return the totals of the plan as text; a total of zero is said aloud."""
    if plan.synthetic == 0:
        return [
            f"Total: no synthetic image for {plan.real:,} real ones: training uses real images "
            f"alone (imbalance {plan.imbalance_before:.3f})."
        ]
    share = plan.synthetic / (plan.real + plan.synthetic)
    made = sum(client.made for client in plan.clients)
    return [
        f"Total: {plan.synthetic:,} synthetic for {plan.real:,} real images "
        f"({share:.1%} of all); {made:,} made now, {plan.synthetic - made:,} from the cache; "
        f"imbalance {plan.imbalance_before:.3f} → {plan.imbalance_after:.3f}."
    ]


def describe_summary(summary: Mapping[str, Any], directory: Path) -> None:
    """Log the result."""
    log(INFO, summary_line(summary))
    log(INFO, "Record: %s", directory)
