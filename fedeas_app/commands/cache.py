"""``fedeas cache``: what the cache holds, whether it is whole, and how to be rid of it."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedeas_app import inventory
from fedeas_app.commands.configuration import SetOption, load_settings
from fedeas_app.commands.console import one_sentence, out
from fedeas_app.errors import UserError
from fedeas_app.inventory import Damage, Entry, Inventory, Kind, Removal

app = typer.Typer(help="Look after the cache directory.", no_args_is_help=True)

_SHOWN = 10


@app.callback()
def main() -> None:
    """Look after the cache directory."""


@app.command("ls")
@one_sentence
def ls(
    overrides: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List what the cache holds."""
    cache = _cache(overrides)
    found = inventory.take(cache)
    if as_json:
        typer.echo(json.dumps(_plain(cache, found), indent=2))
        return
    if found.entries:
        out.print(_table(found.entries))
        _say(f"\n{_entries(found.entries)}, {size_text(found.size)}, in {cache}.")
    else:
        _say_empty(cache)
    _mention(found.foreign)


@app.command("verify")
@one_sentence
def verify(
    overrides: SetOption = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove what is damaged; it is made anew when needed.")
    ] = False,
) -> None:
    """Read everything in the cache and compare it with its checksums."""
    cache = _cache(overrides)
    found = inventory.take(cache)
    if not found.entries:
        _say_empty(cache)
        return
    damages = inventory.verify(cache)
    for damage in damages:
        _say(f"damaged: {damage.path} ({damage.reason})")
    if not damages:
        _say(f"All of {cache} is whole ({_entries(found.entries)}, {size_text(found.size)}).")
    elif repair:
        _report(inventory.repair(damages))
    else:
        raise UserError(
            f"{_damaged(damages)} in {cache}; fedeas cache verify --repair "
            "removes what is damaged, so that it is made anew when it is needed."
        )


@app.command("clear")
@one_sentence
def clear(
    overrides: SetOption = None,
    kind: Annotated[
        list[Kind] | None,
        typer.Option(
            help="Only this kind; may be repeated. Without it all but client-states, which a run "
            "may be using."
        ),
    ] = None,
    older_than: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="DAYS",
            help="Only what was last used that long ago, or last written where no use is recorded.",
        ),
    ] = 0.0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove what the cache holds and can be made anew."""
    cache = _cache(overrides)
    found = inventory.take(cache)
    if not found.entries:
        _say_empty(cache)
    else:
        chosen = inventory.select(cache, kind or inventory.REPLACEABLE, older_than)
        _clear(cache, chosen, ask=not yes)
    if not kind:
        _mention_states(inventory.select(cache, [Kind.CLIENT_STATES], older_than))
    _mention(found.foreign)


def _clear(cache: Path, chosen: Sequence[Entry], *, ask: bool) -> None:
    size = sum(entry.size for entry in chosen)
    if not chosen:
        _say(f"Nothing in {cache} is of that kind and age.")
    elif ask and not typer.confirm(
        f"Remove {_entries(chosen)} ({size_text(size)}) from {cache}?", default=False
    ):
        _say("Nothing was removed.")
    else:
        _report(inventory.remove(chosen))


def _report(removal: Removal) -> None:
    """Say what was removed; what could not be is an error."""
    for path in removal.removed:
        _say(f"removed: {path}")
    _say(f"Removed {len(removal.removed)}, {size_text(removal.size)}.")
    if removal.kept:
        path, reason = removal.kept[0]
        raise UserError(
            f"{len(removal.kept)} could not be removed, among them {path} ({reason}); check who "
            "uses the cache and who may write there, and try again."
        )


def size_text(size: int) -> str:
    """Return a number of bytes for a person; the exact number where it is short."""
    value, units = float(size), iter(("kB", "MB", "GB", "TB"))
    unit = "bytes"
    while value >= 1000 and (larger := next(units, None)):
        value, unit = value / 1000, larger
    return f"{size} bytes" if unit == "bytes" else f"{value:.1f} {unit} ({size:,} bytes)"


def _cache(overrides: list[str] | None) -> Path:
    return load_settings(None, overrides).cache_path


def _say(text: str) -> None:
    """Print as it is: a path may hold what `rich` would take for markup, or wrap."""
    out.print(text, markup=False, soft_wrap=True)


def _say_empty(cache: Path) -> None:
    if cache.exists():
        _say(f"The cache {cache} is empty.")
    else:
        _say(f"There is no cache at {cache} yet.")


def _mention(foreign: Sequence[Path]) -> None:
    if foreign:
        names = ", ".join(map(str, foreign[:_SHOWN]))
        more = f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
        _say(f"Not FedEAS's, or a link, and left alone: {names}{more}.")


def _mention_states(states: Sequence[Entry]) -> None:
    if states:
        _say(
            f"Left alone, as a run may be using them: {_entries(states)} of client-states; "
            "--kind client-states removes them."
        )


def _entries(entries: Sequence[Entry]) -> str:
    return "1 entry" if len(entries) == 1 else f"{len(entries):,} entries"


def _damaged(damages: Sequence[Damage]) -> str:
    return "1 damaged thing is" if len(damages) == 1 else f"{len(damages)} damaged things are"


def _table(entries: Sequence[Entry]) -> Table:
    table = Table("kind", "key", "bytes", "last written", "last used", "what", box=None)
    table.columns[1].overflow = "fold"
    table.columns[2].justify = "right"
    for entry in entries:
        row = (
            str(entry.kind),
            entry.short,
            f"{entry.size:,}",
            _local(entry.written),
            _local(entry.used) if entry.read is not None else "not recorded",
            inventory.describe(entry),
        )
        table.add_row(*map(Text, row))
    return table


def _local(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M}"


def _plain(cache: Path, found: Inventory) -> dict[str, Any]:
    entries = [
        {
            "kind": entry.kind,
            "key": entry.key,
            "path": str(entry.path),
            "bytes": entry.size,
            "last-written": _utc(entry.written),
            "last-used": _utc(entry.used) if entry.read is not None else None,
            "what": inventory.describe(entry),
            "finished": entry.finished,
        }
        for entry in found.entries
    ]
    foreign = list(map(str, found.foreign))
    return {"cache-dir": str(cache), "bytes": found.size, "entries": entries, "foreign": foreign}


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
