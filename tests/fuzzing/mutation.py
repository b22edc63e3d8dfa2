"""Valid inputs made wrong, in ways that a seeded generator chooses."""

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

NUMBERS = (
    0, -1, 1, 2, 255, 256, 65_536, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 10**30,
    -(2**63), 0.0, -0.0, 0.5, 1e-320, 1e308, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
TEXTS = (
    "", " ", "\0", "a\0b", "\n", "../../etc/passwd", "/", "~", "~nobody/x", "NaN", "1e999", "0x10",
    "β=12", "İ", "\u202e", "\ud7ff", "\U0001f600", "x" * 10_000, "9" * 5_000, "%s%n", "[red]", "'",
    '"""', "--", "null", "true", "${HOME}",
)  # fmt: skip
_SNIPPETS = (
    b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3", b"\xed\xa0\x80", b"\r", b"\n\n", b'"', b"'''",
    b"[" * 5_000, b"{" * 5_000, b'{"a":' * 3_000, b"(" * 300, b"," * 500, b"=", b"[[grid]]\n",
    b"9" * 5_000, b"-", b"1e999", b"NaN", b"Infinity", b"\\u0000", b"\\ud800", b"\x1b[31m",
)  # fmt: skip
_TOKEN = re.compile(rb'-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|"[^"\n]*"|true|false|null', re.IGNORECASE)


class Mutator:
    """One input's worth of mistakes.

    Parameters
    ----------
    rng : random.Random
        The same one makes the same mistakes.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def pick(self, choices: Sequence[Any]) -> Any:
        """Return one of several valid inputs."""
        return self.rng.choice(choices)

    def data(self, data: bytes) -> bytes:
        """Return some bytes with up to four mistakes in them, now and then none."""
        for _ in range(self.rng.choice((0, 1, 1, 1, 2, 3, 4))):
            data = self.rng.choice(self._MISTAKES)(self, data)
        return data

    def text(self, text: str) -> str:
        """Return a text with mistakes in it."""
        return self.data(text.encode()).decode("utf-8", "replace")

    def json(self, content: Any) -> bytes:
        """Return JSON with mistakes in its values, its text, or both."""
        if self.rng.random() < 0.7:
            content = self.value(content)
        text = json.dumps(content).encode()
        return self.data(text) if self.rng.random() < 0.5 else text

    def value(self, value: Any) -> Any:
        """Return plain data with another value somewhere, another key, or one too few."""
        if isinstance(value, dict) and value and self.rng.random() < 0.8:
            return self._table(dict(value))
        if isinstance(value, list) and value and self.rng.random() < 0.7:
            place = self.rng.randrange(len(value))
            return [*value[:place], self.value(value[place]), *value[place + 1 :]]
        return self.anything()

    def anything(self) -> Any:
        """Return any plain value."""
        kinds: tuple[Callable[[], Any], ...] = (
            lambda: self.rng.choice(NUMBERS), lambda: self.rng.choice(TEXTS),
            lambda: self.rng.choice((None, True, False, [], {}, [[]], [None], {"": None})),
            lambda: self.rng.randint(-10, 10), lambda: [self.rng.random()] * self.rng.randint(0, 9),
            lambda: self.nested(self.rng.choice((5, 50))),
        )  # fmt: skip
        return self.rng.choice(kinds)()

    def nested(self, depth: int) -> Any:
        """Return lists in lists."""
        value: Any = 0
        for _ in range(depth):
            value = [value]
        return value

    def _table(self, table: dict[str, Any]) -> dict[str, Any]:
        key = self.rng.choice(list(table))
        what = self.rng.randrange(6)
        if what == 0:
            del table[key]
        elif what == 1:
            table[self.rng.choice(TEXTS)] = table[key]
        elif what == 2:
            table[key], table[self.rng.choice(list(table))] = self.anything(), table[key]
        else:
            table[key] = self.value(table[key])
        return table

    def _cut(self, data: bytes) -> bytes:
        return data[: self.rng.randrange(len(data) + 1)]

    def _flip(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self.rng.choice((1, 1, 2, 8)) if changed else 0):
            changed[self.rng.randrange(len(changed))] ^= 1 << self.rng.randrange(8)
        return bytes(changed)

    def _drop(self, data: bytes) -> bytes:
        first, last = self._range(data)
        return data[:first] + data[last:]

    def _repeat(self, data: bytes) -> bytes:
        first, last = self._range(data)
        return data[:last] + data[first:last] * self.rng.choice((1, 1, 3, 40)) + data[last:]

    def _swap(self, data: bytes) -> bytes:
        (a, b), (c, d) = sorted((self._range(data), self._range(data)))
        return data if b > c else data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]

    def _insert(self, data: bytes) -> bytes:
        place = self.rng.randrange(len(data) + 1)
        made = self.rng.choice((self.rng.choice(_SNIPPETS), self.rng.randbytes(8)))
        return data[:place] + made + data[place:]

    def _replace(self, data: bytes) -> bytes:
        tokens = list(_TOKEN.finditer(data[:20_000]))
        if not tokens:
            return self._insert(data)
        token = self.rng.choice(tokens)
        new = json.dumps(self.anything()) if self.rng.random() < 0.8 else str(self.anything())
        return data[: token.start()] + new.encode() + data[token.end() :]

    def _range(self, data: bytes) -> tuple[int, int]:
        first = self.rng.randrange(len(data) + 1)
        return first, min(len(data), first + self.rng.choice((1, 2, 4, 8, 64, 1000)))

    _MISTAKES = (_cut, _flip, _flip, _drop, _repeat, _swap, _insert, _replace, _replace)
