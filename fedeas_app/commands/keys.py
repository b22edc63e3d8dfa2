"""``fedeas keys``: every key of the configuration."""

import json

from rich.markup import escape
from rich.table import Table

from fedeas_app.commands.console import out
from fedeas_app.settings import Settings, allowed


def keys() -> None:
    """List every configuration key with its default, what it takes and what it means."""
    table = Table("key", "default", "meaning", "allowed", box=None, padding=(0, 2, 0, 0))
    for key, value in Settings.parse({}).to_flat().items():
        meaning = Settings.model_fields[key.replace("-", "_")].description or ""
        default = json.dumps(value, ensure_ascii=False)
        table.add_row(key, *map(escape, (default, meaning, allowed(key))))
    out.print(table)
