"""``fedeas keys``: every key of the configuration."""

import json
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedeas_app.commands.console import out
from fedeas_app.settings import Settings, allowed


def keys(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
) -> None:
    """List every configuration key with its default, what it takes and what it means."""
    if markdown:
        typer.echo(markdown_table())
        return
    table = Table("key", "default", "meaning", "allowed", box=None, padding=(0, 2, 0, 0))
    for column in table.columns:
        column.overflow = "fold"
    for row in _rows():
        table.add_row(*map(escape, row))
    out.print(table)


def markdown_table() -> str:
    """Return the table of the README."""
    lines = ["| key | default | meaning |", "|---|---|---|"]
    lines += [f"| `{key}` | `{default}` | {meaning} |" for key, default, meaning, _ in _rows()]
    return "\n".join(lines)


def _rows() -> Iterator[tuple[str, str, str, str]]:
    for key, value in Settings.parse({}).to_flat().items():
        meaning = Settings.model_fields[key.replace("-", "_")].description or ""
        yield key, json.dumps(value, ensure_ascii=False), meaning, allowed(key)
