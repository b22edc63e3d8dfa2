"""Letters for every script: matplotlib's own font has Latin, Greek and Cyrillic, hardly more.

Class names and paths may hold anything. What is in no installed font would be drawn as a box, with
a warning for each letter.
"""

from collections.abc import Iterator
from functools import lru_cache

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text

_USUAL = "DejaVu Sans"  # comes with matplotlib
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"
_PLACEHOLDERS = "LastResort"  # a font with a box for every character there is


def can_draw(text: str) -> bool:
    """Tell whether the usual font, with one other that is installed, has all letters of a text."""
    missing = _missing(text)
    return not missing or _other_font(missing) is not None


def use_fonts(figure: Figure) -> None:
    """Draw letters that the usual font lacks with another one, or as a sign for unknown ones."""
    for text in figure.findobj(Text):
        assert isinstance(text, Text)  # noqa: S101 - findobj does not say so
        missing = _missing(text.get_text())
        other = _other_font(missing) if missing else None
        if other is not None:
            text.set_fontfamily([_USUAL, other])
        elif missing:
            text.set_text("".join(_UNKNOWN if c in missing else c for c in text.get_text()))


def _missing(text: str) -> frozenset[str]:
    usual = _usual_letters()
    return frozenset(c for c in text if c != "\n" and ord(c) not in usual)


@lru_cache(maxsize=1)
def _usual_letters() -> frozenset[int]:
    return _letters(findfont(FontProperties(family=_USUAL)))


@lru_cache(maxsize=256)
def _other_font(letters: frozenset[str]) -> str | None:
    """Return the first installed family that has all of these letters."""
    wanted = frozenset(map(ord, letters))
    return next((name for name, path in installed() if wanted <= _letters(path)), None)


def installed() -> Iterator[tuple[str, str]]:
    """Yield the upright fonts of usual weight with their files: those without serifs first."""
    fonts = {
        (font.name, font.fname)
        for font in fontManager.ttflist
        if font.style == "normal" and font.weight in (400, "normal", "regular")
    }
    usable = (font for font in fonts if _PLACEHOLDERS not in font[0].replace(" ", ""))
    yield from sorted(usable, key=lambda font: ("Sans" not in font[0], font))


def _letters(path: str) -> frozenset[int]:
    try:
        return frozenset(get_font(path).get_charmap())
    except (OSError, RuntimeError):  # a file that matplotlib cannot read
        return frozenset()
