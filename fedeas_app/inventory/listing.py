"""The entries of a cache directory.

Only what carries a name that this application gives is an entry. Everything else is foreign: it is
mentioned and left alone. So is every symbolic link, since what it leads to may lie elsewhere.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from fedeas_app.errors import UserError
from fedeas_app.files import LAST_USED


class Kind(StrEnum):
    """What an entry may be: the directory of the cache that it lies in."""

    DATASETS = "datasets"
    PARTITIONS = "partitions"
    GENERATORS = "generators"
    SCHEDULERS = "schedulers"
    SYNTHETIC = "synthetic"
    CLIENT_STATES = "client-states"


KINDS = tuple(Kind)

REPLACEABLE = tuple(kind for kind in Kind if kind is not Kind.CLIENT_STATES)
"""What is made anew when it is needed; what a client keeps between rounds is lost once removed."""

_DIGEST = "[0-9a-f]{64}"
_GENERATOR = "[^.].*-[0-9a-f]{16}"
_RUN = "[0-9a-f]{32}"  # the random key of `client_state.Address`
# What `files.create_directory` and `tempfile.mkdtemp` append to the name of what they make.
_TEMPORARY = r"[0-9a-f]{32}|[a-z0-9_]{8}"


@dataclass(frozen=True)
class Entry:
    """One directory of the cache, removed whole or not at all.

    Attributes
    ----------
    kind : Kind
    key : str
        Its name there.
    path : Path
    size : int
        Bytes.
    written : float
        When anything in it was last written, in seconds since the epoch.
    read : float, optional
        When it was last read, where that is recorded: client states have no such record.
    finished : bool
        False for what an interrupted process left, or one still at work.
    """

    kind: Kind
    key: str
    path: Path
    size: int
    written: float
    read: float | None = None
    finished: bool = True

    @property
    def short(self) -> str:
        """The key as far as a person needs it; a generator's begins with its name."""
        name, dash, digest = self.key.rpartition("-")
        return f"{name}{dash}{digest[:12]}"

    @property
    def used(self) -> float:
        """When it was last used, as far as that is known: writing is a use too."""
        return max(self.written, self.read or 0.0)


@dataclass(frozen=True)
class Inventory:
    """The entries of a cache, in order of kind and key, and what else lies there."""

    entries: list[Entry] = field(default_factory=list)
    foreign: list[Path] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return sum(entry.size for entry in self.entries)


def take(cache: Path) -> Inventory:
    """List a cache directory, writing nothing.

    Parameters
    ----------
    cache : Path
        It need not exist.

    Returns
    -------
    Inventory

    Raises
    ------
    UserError
        It is not a directory, or cannot be read.
    """
    entries: list[Entry] = []
    foreign: list[Path] = []
    for path in _top(cache):
        if path.name in KINDS and is_directory(path):
            _sort(Kind(path.name), path, entries, foreign)
        else:
            foreign.append(path)
    entries.sort(key=lambda entry: (KINDS.index(entry.kind), entry.key))
    return Inventory(entries, foreign)


def take_drawers(cache: Path) -> list[Entry]:
    """List the synthetic images alone, also where their directory is a link to a larger disk."""
    entries: list[Entry] = []
    _sort(Kind.SYNTHETIC, cache / Kind.SYNTHETIC, entries, [])
    return entries


def measure(path: Path) -> tuple[int, float]:
    """Return the bytes of a directory's files and when anything in it was last written.

    Raises
    ------
    FileNotFoundError
        Another process has just removed it.
    """
    size, written = 0, path.lstat().st_mtime
    for directory, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # removed meanwhile
                status = os.lstat(os.path.join(directory, name))
                size += status.st_size
                if name != LAST_USED:
                    written = max(written, status.st_mtime)
    return size, written


def last_read(path: Path) -> float | None:
    """Return when a directory was last read, where that is recorded."""
    try:
        return (path / LAST_USED).stat().st_mtime
    except OSError:
        return None


def children(directory: Path) -> list[Path]:
    """Return what lies in a directory; nothing where it is gone or not ours to read."""
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def is_directory(path: Path) -> bool:
    """Tell a directory from a link to one."""
    return path.is_dir() and not path.is_symlink()


def _top(cache: Path) -> list[Path]:
    """Return what lies directly in the cache, which may itself be reached by a link."""
    if cache.exists() and not cache.is_dir():
        raise UserError(f"The cache-dir {cache} is not a directory; name another one.")
    try:
        return sorted(cache.resolve().iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(
            f"The cache-dir {cache} cannot be read ({error.strerror or error}); check its "
            "permissions or name another one."
        ) from error


def _sort(kind: Kind, directory: Path, entries: list[Entry], foreign: list[Path]) -> None:
    for path in _candidates(kind, directory):
        match = _match(kind, path.name)
        if match is None or not _belongs(kind, path, match["key"]):
            foreign.append(path)
        elif match["lock"] is None:
            entry = _entry(kind, match["key"], path, finished=match["rest"] is None)
            entries.extend([entry] if entry is not None else [])


def _match(kind: Kind, name: str) -> re.Match[str] | None:
    """Read a name: an entry, or hidden beside it a lock or what is left of a temporary one."""
    key = {Kind.GENERATORS: _GENERATOR, Kind.CLIENT_STATES: _RUN}.get(kind, _DIGEST)
    hidden = rf"(?P<lock>(?:\.repair)?\.lock)|\.(?P<rest>{_TEMPORARY})"
    return re.fullmatch(rf"(?P<dot>\.)?(?P<key>{key})(?(dot)(?:{hidden}))", name)


def _belongs(kind: Kind, path: Path, key: str) -> bool:
    if path.is_symlink() or (kind is Kind.SYNTHETIC and path.parent.name != key[:2]):
        return False
    return path.is_file() if path.name.endswith(".lock") else path.is_dir()


def _candidates(kind: Kind, directory: Path) -> Iterator[Path]:
    """Yield what may be an entry; drawers lie one level deeper than the others."""
    for path in children(directory):
        if kind is Kind.SYNTHETIC and re.fullmatch("[0-9a-f]{2}", path.name) and is_directory(path):
            yield from children(path)
        else:
            yield path


def _entry(kind: Kind, key: str, path: Path, *, finished: bool) -> Entry | None:
    """Look at one entry; None when another process has just removed it."""
    try:
        size, written = measure(path)
    except FileNotFoundError:
        return None
    return Entry(kind, key, path, size, written, last_read(path), finished)
