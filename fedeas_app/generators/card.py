"""The card in a generator's directory: what diffusers' own files do not say."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedeas_app.files import write_text
from fedeas_app.reading import read_json
from fedeas_app.settings import Settings

FILE = "card.json"

_KIND = "class-conditional DDPM"
_CLASSES, _NULL_LABEL, _UNSHUFFLE = "classes", "null-label", "pixel-unshuffle"


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


@dataclass(frozen=True)
class Origin:
    """Where the images come from, for whoever wonders what a generator has seen.

    Attributes
    ----------
    dataset : str, optional
        As in the settings, but of a path the last part alone: the rest is this machine's business.
        The subset follows in parentheses where one was asked for.
    revision : str, optional
        Of a dataset from the hub, where one was asked for.
    """

    dataset: str | None = None
    revision: str | None = None

    @classmethod
    def of(cls, settings: Settings) -> "Origin":
        """Return where the dataset of the settings comes from."""
        dataset = settings.dataset
        is_path = dataset.startswith(("/", ".", "~"))  # no other name begins so
        name = Path(dataset).name if is_path else dataset
        return cls(name + settings.subset_note, settings.dataset_revision or None)


def write_card(directory: Path, card: Card, history: Mapping[str, Any]) -> None:
    """Write the card of a generator.

    Parameters
    ----------
    directory : Path
    card : Card
        What sampling needs.
    history : mapping
        More, for people; no key of it is read again.

    Raises
    ------
    OSError
    """
    needed = {
        "kind": _KIND,
        _CLASSES: list(card.classes),
        _NULL_LABEL: card.null_label,
        _UNSHUFFLE: card.unshuffle,
    }
    write_text(directory / FILE, json.dumps(needed | dict(history), indent=2) + "\n")


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
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise CardError(str(error)) from error
    if not isinstance(content, dict):
        raise CardError("it is no JSON object")
    return Card(
        _classes(content.get(_CLASSES, [])),
        _null_label(content.get(_NULL_LABEL), labels),
        _unshuffle(content.get(_UNSHUFFLE, 1), channels),
    )


def _classes(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise CardError(f"{_CLASSES} is no list of names")
    return tuple(value)


def _null_label(value: Any, labels: int) -> int | None:
    if value is not None and (type(value) is not int or value != labels - 1):
        raise CardError(f"{_NULL_LABEL} is {value!r}, but the network's last label is {labels - 1}")
    return value


def _unshuffle(value: Any, channels: int) -> int:
    if type(value) is not int or value < 1 or channels % value**2:
        raise CardError(
            f"{_UNSHUFFLE} is {value!r}, which the network's {channels} channels do not allow"
        )
    return value
