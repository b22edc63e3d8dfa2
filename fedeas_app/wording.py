"""Numbers and lists in sentences. Records are read as they are, so that nothing here refuses."""

from collections.abc import Sequence
from typing import Any

NONE = "–"


def number(value: Any, form: str) -> str:
    """Return a number in a format, a dash for none, and anything else as its text.

    Parameters
    ----------
    value : Any
        As a record has it: a damaged one may hold a text where a number belongs.
    form : str
        As for :func:`format`.
    """
    if value is None:
        return NONE
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return format(value, form)


def whole(value: Any) -> str:
    """Return a count with its thousands grouped."""
    return number(value, ",.0f")


def percent(value: Any) -> str:
    """Return a share in percent, two places."""
    return number(value, ".2%")


def seconds(value: Any) -> str:
    """Return a time as :func:`duration` does, with spaces that do not break."""
    return duration(value).replace(" ", "\N{NO-BREAK SPACE}")


def duration(value: Any) -> str:
    """Return a number of seconds as 3.4 s, 12 min 5 s, 3 h 20 min."""
    if value is None:
        return NONE
    if not isinstance(value, int | float) or round(value, 1) < 60:
        return f"{number(value, '.1f')} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min"


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: 1 client, 1,200 clients."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(items: Sequence[Any], most: int = 12) -> str:
    """Return items with commas, the first so many of them."""
    words = ", ".join(map(str, items[:most]))
    more = len(items) - most
    return f"{words} and {more:,} more" if more > 0 else words


def in_one_line(value: Any) -> str:
    """Return a value's text, escaped where it would break a line or a terminal."""
    text = str(value)
    return text if text.isprintable() else repr(text)
