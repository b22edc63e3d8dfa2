"""What a page is made of, before it is HTML; every text in it is untrusted and escaped there."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """A number with its name and, where it needs one, a remark."""

    name: str
    value: str
    remark: str = ""


@dataclass(frozen=True)
class Table:
    """A table; the first column heads its rows.

    Attributes
    ----------
    caption : str
        Read out to those who do not see it, and shown.
    headers : sequence of str
    rows : sequence of sequence of str
        Each as long as the headers.
    texts : frozenset of int
        Columns of words, which are set on the left and may be long; the others hold numbers.
    notes : sequence of str
        How to read it, below it.
    """

    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: frozenset[int] = frozenset()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Drawing:
    """A figure for both themes.

    Attributes
    ----------
    title, caption, alt : str
    light, dark : str
        ``data:`` addresses of the images.
    width, height : int
        Pixels at which it is shown at most.
    """

    title: str
    caption: str
    alt: str
    light: str
    dark: str
    width: int
    height: int


@dataclass(frozen=True)
class SampleSheet:
    """What was generated, or why it is not shown.

    Attributes
    ----------
    image : str
        A ``data:`` address; empty where there is none.
    width, height : int
        Its pixels.
    classes : sequence of str
        The names of its rows.
    absent : str
        Why there is none, in a sentence.
    of : str
        Whose it is, where a page shows several runs.
    """

    image: str = ""
    width: int = 0
    height: int = 0
    classes: Sequence[str] = ()
    absent: str = ""
    of: str = ""
