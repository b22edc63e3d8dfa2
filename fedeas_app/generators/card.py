"""The card in a generator's directory: what diffusers' own files do not say."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "card.json"


class CardError(Exception):
    """A card that cannot be used, and why."""


@dataclass(frozen=True)
class Card:
    """What sampling needs of it.

    Attributes
    ----------
    classes : tuple of str
        Names of the labels, in their order; empty where nothing is known of them.
    null_label : int, optional
        The label that stood for dropped ones in training: the one after the classes.
    unshuffle : int
        The network sees blocks of this many pixels a side as channels.
    """

    classes: tuple[str, ...] = ()
    null_label: int | None = None
    unshuffle: int = 1


def read_card(directory: Path, labels: int, channels: int) -> Card:
    """Read the card of a generator.

    Parameters
    ----------
    directory : Path
    labels, channels : int
        What the network has, to hold the card against.

    Returns
    -------
    Card
        An empty one where there is no card.

    Raises
    ------
    CardError
        Says what is wrong with it.
    """
    path = directory / FILE
    if not path.exists():
        return Card()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CardError(str(error)) from error
    if not isinstance(content, dict):
        raise CardError("it is no JSON object")
    return Card(
        _classes(content.get("classes", [])),
        _null_label(content.get("null-label"), labels),
        _unshuffle(content.get("pixel-unshuffle", 1), channels),
    )


def _classes(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise CardError("classes is no list of names")
    return tuple(value)


def _null_label(value: Any, labels: int) -> int | None:
    if value is not None and (type(value) is not int or value != labels - 1):
        raise CardError(f"null-label is {value!r}, but the network's last label is {labels - 1}")
    return value


def _unshuffle(value: Any, channels: int) -> int:
    if type(value) is not int or value < 1 or channels % value**2:
        raise CardError(
            f"pixel-unshuffle is {value!r}, which the network's {channels} channels do not allow"
        )
    return value
