"""``fedeas doctor``: what may keep a run from working on this machine."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedeas_app.commands.configuration import ConfigArgument, SetOption, load_settings
from fedeas_app.commands.console import err, out
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings
from fedeas_app.wording import plural

if TYPE_CHECKING:
    from fedeas_app.diagnosis import Finding, Section

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def doctor(
    config: ConfigArgument = None,
    overrides: SetOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for a bug report, without names of users.")
    ] = False,
) -> None:
    """Say what may keep a configuration from working on this machine, and what to do.

    Nothing is changed, started or downloaded. The exit status is 1 where there is a problem.
    """
    from fedeas_app import diagnosis  # it loads torch

    settings, mistakes = _read(config, overrides)
    with err.status("Looking"):
        sections = diagnosis.diagnose(settings, mistakes)
    if as_json:
        said = diagnosis.redacted(diagnosis.to_dict(sections))
        typer.echo(json.dumps(said, indent=2, ensure_ascii=False))
    else:
        _show(sections)
        _sum_up(diagnosis.count(sections, "problem"), diagnosis.count(sections, "warning"))
    raise typer.Exit(int(diagnosis.count(sections, "problem") > 0))


def _read(config: Path | None, overrides: list[str] | None) -> tuple[Settings | None, list[str]]:
    """Return the settings, or what is wrong with them, a sentence each."""
    try:
        return load_settings(config, overrides), []
    except UserError as error:
        return None, [str(sentence) for sentence in error.args]


def _show(sections: Sequence["Section"]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for section in sections:
        table.add_row(f"[bold]{escape(section.title)}[/bold]")
        for finding in section.findings:
            _add(table, finding)
    out.print(table)


def _add(table: Table, finding: "Finding") -> None:
    status = f"  [{_STYLES[finding.status]}]{finding.status}[/]"
    lines = [line for line in (finding.found, finding.advice) if line]
    table.add_row(status, escape(finding.subject), escape("\n".join(lines)))


def _sum_up(problems: int, warnings: int) -> None:
    found = [plural(problems, "problem")] if problems else ["No problem"]
    found += [plural(warnings, "warning")] if warnings else []
    out.print(f"\n{', '.join(found)}.", style="bold")
