"""Entries removed whole, whoever else reads, builds or removes them at the same time."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from fedeas_app.inventory.listing import (
    REPLACEABLE,
    Entry,
    Kind,
    is_directory,
    measure,
    take,
)

_DAY = 86400.0
_PATIENCE = 1.0  # seconds: whoever holds a lock for longer is building


@dataclass(frozen=True)
class Removal:
    """What was removed, its bytes, and what could not be removed and why."""

    removed: list[Path] = field(default_factory=list)
    kept: list[tuple[Path, str]] = field(default_factory=list)
    size: int = 0


@dataclass(frozen=True)
class Target:
    """An entry, or a file of it, to be removed if a condition holds at the last moment."""

    entry: Entry
    path: Path
    condition: Callable[[], bool] = lambda: True


def select(
    cache: Path, kinds: Sequence[str] = REPLACEABLE, older_than_days: float = 0.0
) -> list[Entry]:
    """Return the entries of some kinds that were last used so many days ago or earlier.

    Left out, the kinds are those that can be made anew: a run may be using the others.
    Where it is not known when an entry was used, it counts when it was written.

    Raises
    ------
    UserError
        The cache is not a directory, or cannot be read.
    """
    latest = time.time() - older_than_days * _DAY if older_than_days else float("inf")
    return [entry for entry in take(cache).entries if entry.kind in kinds and entry.used <= latest]


def remove(entries: Iterable[Entry]) -> Removal:
    """Remove entries whole, whoever else reads, builds or removes them at the same time."""
    return remove_targets(Target(entry, entry.path) for entry in entries)


def clear(cache: Path, kinds: Sequence[str] = REPLACEABLE, older_than_days: float = 0.0) -> Removal:
    """Remove the entries that :func:`select` returns.

    Raises
    ------
    UserError
        The cache is not a directory, or cannot be read.
    """
    return remove(select(cache, kinds, older_than_days))


def remove_targets(targets: Iterable[Target]) -> Removal:
    """Remove what is there where its condition, asked under the entry's locks, holds."""
    removed: list[Path] = []
    kept: list[tuple[Path, str]] = []
    freed = 0
    for target in targets:
        try:
            size = _remove_one(target)
        except Timeout:
            kept.append((target.path, "another process is building it"))
        except OSError as error:
            kept.append((target.path, error.strerror or str(error)))
        else:
            removed.extend([target.path] if size is not None else [])
            freed += size or 0
    return Removal(removed, kept, freed)


def _remove_one(target: Target) -> int | None:
    """Remove one path and return its bytes; None when it is gone or need not go."""
    entry, path = target.entry, target.path
    if not is_directory(entry.path):  # before the locks, which would make its parents again
        return None
    with _locked(entry):
        try:
            size = measure(path)[0] if path == entry.path else path.lstat().st_size
            if not target.condition():
                return None
            if path == entry.path:
                _bury(entry)
            else:
                path.unlink()
        except FileNotFoundError:  # another process was quicker
            return None
    return size


def _locked(entry: Entry) -> AbstractContextManager[object]:
    """Take the locks of `build_directory` and `load_or_build`.

    Drawers and client states are filled without any.
    The lock files stay: who removed one could no longer exclude whoever already waits for it.
    """
    if entry.kind in (Kind.SYNTHETIC, Kind.CLIENT_STATES):
        return nullcontext()
    with ExitStack() as stack:
        for suffix in ("repair.lock", "lock"):
            lock = FileLock(entry.path.parent / f".{entry.key}.{suffix}", timeout=_PATIENCE)
            stack.enter_context(lock)
        return stack.pop_all()


def _bury(entry: Entry) -> None:
    """Move an entry out of sight at once, then remove it: no reader finds half of it."""
    grave = Path(tempfile.mkdtemp(prefix=f".{entry.key}.", dir=entry.path.parent))
    try:
        entry.path.rename(grave / "entry")
    except OSError:
        with suppress(FileNotFoundError):  # somebody else cleared the empty grave
            grave.rmdir()
        raise
    while grave.exists():
        with suppress(FileNotFoundError):  # somebody else clears the same grave
            shutil.rmtree(grave)
