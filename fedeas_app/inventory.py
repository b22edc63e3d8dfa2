"""What lies in a cache directory: listed, checked and removed.

Only what carries a name that this application gives is an entry. Everything else is foreign: it is
mentioned and left alone. So is every symbolic link, since what it leads to may lie elsewhere.
"""

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from fedeas_app.errors import UserError
from fedeas_app.store import DamagedError


class Kind(StrEnum):
    """What an entry may be: the directory of the cache that it lies in."""

    DATASETS = "datasets"
    PARTITIONS = "partitions"
    GENERATORS = "generators"
    SYNTHETIC = "synthetic"


KINDS = tuple(Kind)

_DIGEST = "[0-9a-f]{64}"
_GENERATOR = "[^.].*-[0-9a-f]{16}"
# What `files.create_directory` and `tempfile.mkdtemp` append to the name of what they make.
_TEMPORARY = r"[0-9a-f]{32}|[a-z0-9_]{8}"
_DAY = 86400.0
_PATIENCE = 1.0  # seconds: whoever holds a lock for longer is building


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
        When anything in it was last written, in seconds since the epoch. Reading leaves no trace.
    what : str
        What it is, for a person.
    finished : bool
        False for what an interrupted process left, or one still at work.
    """

    kind: Kind
    key: str
    path: Path
    size: int
    written: float
    what: str
    finished: bool = True

    @property
    def short(self) -> str:
        """The key as far as a person needs it; a generator's begins with its name."""
        name, dash, digest = self.key.rpartition("-")
        return f"{name}{dash}{digest[:12]}"


@dataclass(frozen=True)
class Inventory:
    """The entries of a cache, in order of kind and key, and what else lies there."""

    entries: list[Entry] = field(default_factory=list)
    foreign: list[Path] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return sum(entry.size for entry in self.entries)


@dataclass(frozen=True)
class Damage:
    """A directory or a single shard that is not what was put there."""

    entry: Entry
    path: Path
    reason: str


@dataclass(frozen=True)
class Removal:
    """What was removed, its bytes, and what could not be removed and why."""

    removed: list[Path] = field(default_factory=list)
    kept: list[tuple[Path, str]] = field(default_factory=list)
    size: int = 0


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
        if path.name in KINDS and _is_directory(path):
            _sort(Kind(path.name), path, entries, foreign)
        else:
            foreign.append(path)
    entries.sort(key=lambda entry: (KINDS.index(entry.kind), entry.key))
    return Inventory(entries, foreign)


def verify(cache: Path) -> list[Damage]:
    """Read everything in a cache and return what is damaged, writing nothing.

    Shards are compared with the checksum in their name, decoded datasets, partitions and unpacked
    generators with the digests stored beside them.

    Raises
    ------
    UserError
        The cache is not a directory, or cannot be read.
    """
    finished = (entry for entry in take(cache).entries if entry.finished)
    return [damage for entry in finished for damage in _damages(entry)]


def repair(damages: Iterable[Damage]) -> Removal:
    """Remove what is still damaged; it is made anew when it is next needed."""
    return _remove((damage.entry, damage.path, _still(damage)) for damage in damages)


def select(cache: Path, kinds: Sequence[str] = KINDS, older_than_days: float = 0.0) -> list[Entry]:
    """Return the entries of some kinds that were last written so many days ago or earlier.

    Raises
    ------
    UserError
        The cache is not a directory, or cannot be read.
    """
    latest = time.time() - older_than_days * _DAY if older_than_days else float("inf")
    entries = take(cache).entries
    return [entry for entry in entries if entry.kind in kinds and entry.written <= latest]


def remove(entries: Iterable[Entry]) -> Removal:
    """Remove entries whole, whoever else reads, builds or removes them at the same time."""
    return _remove((entry, entry.path, lambda: True) for entry in entries)


def clear(cache: Path, kinds: Sequence[str] = KINDS, older_than_days: float = 0.0) -> Removal:
    """Remove the entries that :func:`select` returns.

    Raises
    ------
    UserError
        The cache is not a directory, or cannot be read.
    """
    return remove(select(cache, kinds, older_than_days))


# --- listing ---


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
    key = _GENERATOR if kind is Kind.GENERATORS else _DIGEST
    hidden = rf"(?P<lock>(?:\.repair)?\.lock)|\.(?P<rest>{_TEMPORARY})"
    return re.fullmatch(rf"(?P<dot>\.)?(?P<key>{key})(?(dot)(?:{hidden}))", name)


def _belongs(kind: Kind, path: Path, key: str) -> bool:
    if path.is_symlink() or (kind is Kind.SYNTHETIC and path.parent.name != key[:2]):
        return False
    return path.is_file() if path.name.endswith(".lock") else path.is_dir()


def _candidates(kind: Kind, directory: Path) -> Iterator[Path]:
    """Yield what may be an entry; drawers lie one level deeper than the others."""
    for path in _children(directory):
        if (
            kind is Kind.SYNTHETIC
            and re.fullmatch("[0-9a-f]{2}", path.name)
            and _is_directory(path)
        ):
            yield from _children(path)
        else:
            yield path


def _children(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:  # removed by another process, or not ours to read
        return []


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _entry(kind: Kind, key: str, path: Path, *, finished: bool) -> Entry | None:
    """Look at one entry; None when another process has just removed it."""
    try:
        size, written = _measure(path)
    except FileNotFoundError:
        return None
    what = _describe(kind, path) if finished else "unfinished, or left by an interrupted process"
    return Entry(kind, key, path, size, written, what, finished)


def _measure(path: Path) -> tuple[int, float]:
    size, written = 0, path.lstat().st_mtime
    for directory, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # removed meanwhile
                status = os.lstat(os.path.join(directory, name))
                size, written = size + status.st_size, max(written, status.st_mtime)
    return size, written


def _describe(kind: Kind, path: Path) -> str:
    try:
        return _DESCRIBE[kind](path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError):
        return "not readable"


def _describe_dataset(path: Path) -> str:
    meta = _json(path / "meta.json")
    count, height, width, _ = meta["shape"]
    return f"{meta['dataset']} {meta['split']}: {count:,} images of {height}x{width}"


def _describe_partition(path: Path) -> str:
    sizes = np.load(path / "sizes.npy", allow_pickle=False)
    return f"{sizes.sum():,} images for {len(sizes):,} clients"


def _describe_generator(path: Path) -> str:
    return f"unpacked generator {path.name.rpartition('-')[0]!r}"


def _describe_drawer(path: Path) -> str:
    shapes = (_shard_shape(shard) for shard in path.glob("*.safetensors"))
    images = f"{sum(shape[0] for shape in shapes if shape):,} images"
    try:
        about = _json(path / "drawer.json")
        return f"{images} by {about['generator']}, {about['machine'] or 'any machine'}"
    except (OSError, ValueError, KeyError, TypeError):  # older than the file that says it
        return f"{images} by a generator not recorded"


_DESCRIBE: dict[Kind, Callable[[Path], str]] = {
    Kind.DATASETS: _describe_dataset,
    Kind.PARTITIONS: _describe_partition,
    Kind.GENERATORS: _describe_generator,
    Kind.SYNTHETIC: _describe_drawer,
}


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _shard_shape(path: Path) -> tuple[int, ...] | None:
    """Return the shape of a shard's images from its header alone."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as shard:
            return tuple(shard.get_slice("images").get_shape())
    except (OSError, SafetensorError):
        return None


# --- checking ---


def _damages(entry: Entry) -> Iterator[Damage]:
    for path, reason in _CHECKS[entry.kind](entry.path):
        if path.exists():  # else another process has just removed it
            yield Damage(entry, path, reason)


def _still(damage: Damage) -> Callable[[], bool]:
    """Ask again: whoever came first may have made it anew."""
    if damage.path != damage.entry.path:
        return lambda: _broken(damage.path) is not None
    return lambda: any(_damages(damage.entry))


def _check_dataset(path: Path) -> Iterator[tuple[Path, str]]:
    from fedeas_app.data import split

    try:
        split._read(path, verify=True)
    except DamagedError as error:
        yield path, str(error)


def _check_partition(path: Path) -> Iterator[tuple[Path, str]]:
    from fedeas_app.data import partition_digest

    try:
        indices, sizes = (
            np.load(path / f"{name}.npy", allow_pickle=False) for name in ("indices", "sizes")
        )
        parts = np.split(indices, np.cumsum(sizes)[:-1])
        digest = (path / "digest.txt").read_text(encoding="utf-8")
        # The digest does not see a last size that is too large: `split` gives what there is.
        if sizes.sum() != len(indices) or partition_digest(parts) != digest:
            yield path, "the stored partition is not the one that was drawn"
    except (OSError, ValueError, TypeError, EOFError) as error:
        yield path, str(error)


def _check_generator(path: Path) -> Iterator[tuple[Path, str]]:
    from fedeas_app.generators import pretrained

    try:
        pretrained._verified(path)
    except DamagedError as error:
        yield path, str(error)


def _check_drawer(path: Path) -> Iterator[tuple[Path, str]]:
    for file in _children(path):
        reason = _broken(file)
        if reason is not None:
            yield file, reason


def _broken(path: Path) -> str | None:
    """Say what is wrong with a file of a drawer."""
    from fedeas_app.generators.cache import ABOUT, read_shard

    if path.name == ABOUT:
        return None if _is_json(path) else "it is not JSON"
    if path.suffix != ".safetensors" or path.name.startswith("."):
        return None
    _, *shape = _shard_shape(path) or (0,)
    if len(shape) != 3 or read_shard(path, (shape[0], shape[1], shape[2])) is None:
        return "its content is not what its name says"
    return None


def _is_json(path: Path) -> bool:
    try:
        _json(path)
    except (OSError, ValueError):
        return False
    return True


_CHECKS: dict[Kind, Callable[[Path], Iterator[tuple[Path, str]]]] = {
    Kind.DATASETS: _check_dataset,
    Kind.PARTITIONS: _check_partition,
    Kind.GENERATORS: _check_generator,
    Kind.SYNTHETIC: _check_drawer,
}


# --- removing ---


def _remove(wanted: Iterable[tuple[Entry, Path, Callable[[], bool]]]) -> Removal:
    """Remove paths of entries where the condition, asked under the entry's locks, holds."""
    removed: list[Path] = []
    kept: list[tuple[Path, str]] = []
    freed = 0
    for entry, path, condition in wanted:
        try:
            size = _remove_one(entry, path, condition)
        except Timeout:
            kept.append((path, "another process is building it"))
        except OSError as error:
            kept.append((path, error.strerror or str(error)))
        else:
            removed.extend([path] if size is not None else [])
            freed += size or 0
    return Removal(removed, kept, freed)


def _remove_one(entry: Entry, path: Path, condition: Callable[[], bool]) -> int | None:
    """Remove one path and return its bytes; None when it is gone or need not go."""
    if not _is_directory(entry.path):  # before the locks, which would make its parents again
        return None
    with _locked(entry):
        try:
            size = _measure(path)[0] if path == entry.path else path.lstat().st_size
            if not condition():
                return None
            if path == entry.path:
                _bury(entry)
            else:
                path.unlink()
        except FileNotFoundError:  # another process was quicker
            return None
    return size


def _locked(entry: Entry) -> AbstractContextManager[object]:
    """Take the locks of `build_directory` and `load_or_build`; drawers are filled without any.

    The lock files stay: who removed one could no longer exclude whoever already waits for it.
    """
    if entry.kind is Kind.SYNTHETIC:
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
        grave.rmdir()
        raise
    while grave.exists():
        with suppress(FileNotFoundError):  # somebody else clears the same grave
            shutil.rmtree(grave)
