"""Single values of a message, held against what they have to be: any node may send anything."""

from collections.abc import Mapping
from sys import float_info
from typing import Any, Final

MOST: Final = 2**53
"""The largest whole number that is taken, as a float still holds it exactly."""


def whole(record: Mapping[str, Any], key: str, least: int = 0, most: int = MOST) -> int:
    """Return a whole number within limits.

    Raises
    ------
    ValueError
        Names the key and what is there, as all functions here do.
    """
    value = record.get(key)
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{key} is {_shown(value)}, not a whole number from {least} to {most}")
    return value


def number(record: Mapping[str, Any], key: str) -> float:
    """Return a finite number of at least 0."""
    value = record.get(key)
    if value is None or not _is_number(value):
        raise ValueError(f"{key} is {_shown(value)}, not a number of at least 0")
    return float(value)


def numbers(record: Mapping[str, Any], key: str, most: int) -> list[float]:
    """Return some finite numbers of at least 0: one at least, `most` of them at most."""
    values = record.get(key)
    if not isinstance(values, list) or not 1 <= len(values) <= most:
        raise ValueError(f"{key} is {_shown(values)}, not a list of 1 to {most} numbers")
    if not all(map(_is_number, values)):
        raise ValueError(f"{key} is {_shown(values)}, not all of them numbers of at least 0")
    return list(map(float, values))


def text(record: Mapping[str, Any], key: str, most: int = 1000) -> str:
    """Return a text of so many characters at most."""
    value = record.get(key)
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"{key} is {_shown(value)}, not a text of up to {most} characters")
    return value


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= float_info.max


def _shown(value: Any, most: int = 80) -> str:
    shown = repr(value)
    return shown if len(shown) <= most else f"{shown[:most]}..."
