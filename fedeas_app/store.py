"""Directories computed once by whichever process comes first, and computed again when damaged."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from filelock import FileLock

from fedeas_app import files
from fedeas_app.errors import UserError

T = TypeVar("T")


class DamagedError(Exception):
    """What is stored in a directory is not what was put there."""


def load_or_build(target: Path, read: Callable[[Path], T], fill: Callable[[Path], None]) -> T:
    """Read a cached directory; build it first where it is absent or damaged.

    Parameters
    ----------
    target : Path
        The directory wanted.
    read : callable
        Reads it; raises :class:`DamagedError` when the content is not whole.
    fill : callable
        Gets an empty directory and puts the content there.

    Returns
    -------
    object
        What ``read`` returns.

    Raises
    ------
    UserError
        The directory cannot be written, or is damaged and cannot be replaced.
    """
    try:
        return _read_or_build(target, read, fill)
    except DamagedError:
        _discard_if_still_damaged(target, read)
    try:
        return _read_or_build(target, read, fill)
    except DamagedError as error:
        raise UserError(_advice(target, error)) from error


def _read_or_build(target: Path, read: Callable[[Path], T], fill: Callable[[Path], None]) -> T:
    content = read(files.build_directory(target, fill))
    files.stamp(target)
    return content


def _discard_if_still_damaged(target: Path, read: Callable[[Path], object]) -> None:
    """Several processes may see the damage; whoever is late must not remove the new copy."""
    try:
        with FileLock(target.parent / f".{target.name}.repair.lock"):
            if target.is_dir() and _is_damaged(target, read):
                grave = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
                target.rename(grave / "damaged")
                shutil.rmtree(grave, ignore_errors=True)
    except OSError as error:
        raise UserError(_advice(target, error)) from error


def _is_damaged(target: Path, read: Callable[[Path], object]) -> bool:
    try:
        read(target)
    except DamagedError:
        return True
    return False


def _advice(target: Path, error: Exception) -> str:
    return (
        f"The cached directory {target} is damaged and cannot be replaced ({error}); "
        "delete it, or name another cache-dir."
    )
