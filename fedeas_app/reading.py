"""Text, JSON, TOML and arrays that somebody else may have written, read within bounds."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from tokenize import TokenError
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

MOST: Final = 64 * 2**20
"""Bytes that a configuration, an index or a table may have; nobody's are larger."""

HEADER_ERRORS: Final = (
    ValueError, TypeError, KeyError, SyntaxError, TokenError, EOFError, OverflowError,
    RecursionError, MemoryError,
)  # fmt: skip
"""What numpy raises for a damaged header; the last is Python's parser's, for deep nesting."""

T = TypeVar("T")


def read_text(path: Path, most: int = MOST) -> str:
    """Return the text of a file.

    Raises
    ------
    OSError
    ValueError
        It is larger than `most` bytes, or not UTF-8.
    """
    with open(path, "rb") as stream:
        data = stream.read(most + 1)  # not the file's size: a device has none, and no end
    if len(data) > most:
        raise ValueError(f"it is larger than {most // 2**20} MiB")
    return data.decode("utf-8")


def parse_json(text: str) -> Any:
    """Return what a text says.

    Raises
    ------
    ValueError
        It is not JSON, or nested too deeply.
    """
    return _bounded(json.loads, text)


def parse_toml(text: str) -> dict[str, Any]:
    """Return what a text says.

    Raises
    ------
    ValueError
        It is not TOML, or nested too deeply.
    """
    return _bounded(tomllib.loads, text)


def read_json(path: Path) -> Any:
    """Return what a file says; raises as :func:`read_text` and :func:`parse_json` do."""
    return parse_json(read_text(path))


def read_array(path: Path) -> NDArray[Any]:
    """Return the array in an ``.npy`` file as a read-only memory map: nothing larger than the file.

    Raises
    ------
    OSError
    ValueError
        It is damaged, of another format, or holds objects.
    """
    try:
        with np.errstate(over="ignore"):  # a size that is forged; there is no file so large
            return np.lib.format.open_memmap(path, mode="r")
    except HEADER_ERRORS as error:
        raise ValueError(f"it is no array of numpy's ({type(error).__name__})") from error


def is_inside(name: str) -> bool:
    """Tell whether a path that somebody else wrote stays below the directory it is taken from."""
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts


def _bounded(parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
