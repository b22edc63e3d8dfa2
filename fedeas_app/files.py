"""Files that are either whole or absent."""

import errno
import glob
import hashlib
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from filelock import FileLock

from fedeas_app.errors import UserError

LAST_USED: Final = "last-used"
"""The file in a directory whose modification time says when that was last used."""

_SUFFIX = "[0-9a-f]{32}"  # of a name that nobody else uses
_IN_THE_WAY = "remove the file that is in its place"
_FORBIDDEN = "let this user write there"
_ADVICE = {
    errno.EEXIST: _IN_THE_WAY,
    errno.ENOTDIR: _IN_THE_WAY,
    errno.ENOENT: "make it again",
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: _FORBIDDEN,
}


def sweep(directory: Path, age: float = 0.0) -> None:
    """Remove what killed processes left of files that they were about to write.

    Parameters
    ----------
    directory : Path
    age : float
        Seconds since the last write to such a file after which nobody writes it any more; 0 where
        a lock keeps all others out.
    """
    for path in directory.glob(".*"):
        with suppress(OSError):  # somebody else removed it
            if _is_left(path) and (not age or time.time() - path.stat().st_mtime > age):
                path.unlink()


def _is_left(path: Path) -> bool:
    return re.fullmatch(rf"\..+\.{_SUFFIX}", path.name) is not None and path.is_file()


def write_bytes(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file atomically: readers see the old file or the new one, never half of it.

    Its permissions are ``mode`` from the first byte on, less what the umask takes away.
    """
    with _beside(path) as temporary:
        with open(temporary, "wb", opener=partial(os.open, mode=mode)) as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    write_bytes(path, text.encode())


def build_directory(target: Path, fill: Callable[[Path], None]) -> Path:
    """Make a directory once, whole, whoever else tries at the same time.

    Parameters
    ----------
    target : Path
        The directory wanted. When it exists, nothing is done.
    fill : callable
        Gets an empty directory and puts the content there.

    Returns
    -------
    Path
        ``target``.

    Raises
    ------
    UserError
        The place cannot be written.
    """
    if target.is_dir():
        return target
    make_directory(target.parent)
    try:
        with FileLock(target.parent / f".{target.name}.lock"):
            if not target.is_dir():
                clear_away(target)
                create_directory(target, fill)
    except OSError as error:
        raise UserError(cannot_write(target.parent, error)) from error
    return target


def clear_away(target: Path) -> None:
    """Remove what killed processes left of the same directory; a lock keeps all others out."""
    for path in target.parent.glob(f".{glob.escape(target.name)}.*"):
        if re.fullmatch(rf"\.{re.escape(target.name)}\.{_SUFFIX}", path.name):
            shutil.rmtree(path, ignore_errors=True)


def create_directory(target: Path, fill: Callable[[Path], None]) -> Path:
    """Make a directory that nobody else is making: it appears whole or not at all."""
    temporary = _unused_name(target)
    temporary.mkdir()
    try:
        fill(temporary)
        return temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sync(directory: Path) -> None:
    """See that the files in a directory outlive a loss of power."""
    for path in directory.rglob("*"):
        if path.is_file():
            with open(path, "rb") as stream:
                os.fsync(stream.fileno())


def stamp(directory: Path) -> None:
    """Record that a directory is being used; where nothing can be written, it may be no less."""
    with suppress(OSError):
        (directory / LAST_USED).touch()


def cannot_write(directory: Path, error: OSError) -> str:
    """Say in one sentence that a directory cannot be written, why, and what to do."""
    advice = _ADVICE.get(error.errno or 0, "free some space there")
    return (
        f"The directory {directory} cannot be written ({error.strerror or error}); {advice} "
        "or name another one."
    )


@contextmanager
def told(directory: Path) -> Iterator[None]:
    """Say in one sentence that something in a directory could not be written.

    Raises
    ------
    UserError
    """
    try:
        yield
    except OSError as error:
        raise UserError(cannot_write(directory, error)) from error


def make_directory(path: Path) -> Path:
    """Make a directory and its parents, or say in one sentence why that is impossible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise UserError(cannot_write(path, error)) from error


def require_writable(path: Path) -> None:
    """Refuse a file that cannot be written: now, and not after minutes of work.

    Raises
    ------
    UserError
    """
    probe = _unused_name(path)
    try:
        if path.is_dir():
            raise UserError(f"{path} is a directory; name a file in it.")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(cannot_write(path.parent, error)) from error


def require_new(target: Path) -> Path:
    """Refuse a directory that exists or cannot be made: now, and not after hours of work.

    Returns
    -------
    Path
        ``target``, with the home directory in the place of a leading ``~``.

    Raises
    ------
    UserError
    """
    target = _expand_home(target)
    try:
        if target.exists():
            raise UserError(f"{target} exists already; name another directory or remove it.")
    except OSError as error:  # a parent that may not be read, or a name that is too long
        raise UserError(cannot_write(target.parent, error)) from error
    make_directory(target.parent)
    return target


def _expand_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:  # ~someone who does not exist
        raise UserError(
            f"The directory {path} names an unknown home directory; write its path in full."
        ) from error


def sha256(data: bytes | memoryview) -> str:
    """Return the SHA-256 of some bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal, in constant memory."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def file_sha256_once(path: Path) -> str:
    """Return the same, reading a file that does not change only once a process.

    A worker opens its generator anew for every client and round.
    """
    status = path.stat()
    return _sha256_of_version(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _sha256_of_version(path: Path, size: int, modified: int) -> str:
    return file_sha256(path)


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Yield an unused name in the same directory; remove what is left of it afterwards."""
    temporary = _unused_name(path)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _unused_name(path: Path) -> Path:
    """Return a hidden neighbour's name.

    Not from `tempfile`, whose files only their owner may read: a cache may be shared.
    """
    return path.parent / f".{path.name}.{uuid.uuid4().hex}"
