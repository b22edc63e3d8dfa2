"""A sheet of what a simulated run's clients generated, taken from their caches."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedeas_app.files import write_bytes
from fedeas_app.runs.reading import ClassCounts, Run, read_run
from fedeas_app.settings import Settings

Images = NDArray[np.uint8]

SAMPLES = "samples.png"
MOST_CLASSES = 100
PER_CLASS = 8

_MOST_IMAGES = 240  # so that a page that embeds the sheet stays small
_LARGEST = 64  # pixels a side
_PAPER = 128  # the colour between images, and of a row without any


class Choice(NamedTuple):
    """One image: whose it is, of which class, and its number within the class."""

    client: int
    label: int
    number: int


def keep_samples(settings: Settings, directory: Path) -> None:
    """Write ``samples.png`` beside the record of a finished simulation, if anything was generated.

    A row for each class (the first `MOST_CLASSES`) in their order, with up to `PER_CLASS` images
    that its clients trained on, the first of each client before the second of any. Nothing is
    generated: what the cache has lost is left out. It never raises, as a run that is finished must
    not fail for want of a picture.

    Parameters
    ----------
    settings : Settings
        Of the run: they say where the clients' images are.
    directory : Path
        The run's; its ``counts.json`` says how many of each class every client has.
    """
    with suppress(Exception):
        run = read_run(directory)
        counts = run.counts
        if settings.policy != "none" and counts is not None and counts.synthetic.any():
            _write(_told(settings, run), counts, directory / SAMPLES)


def choose(synthetic: NDArray[np.int64]) -> list[Choice]:
    """Choose which images to show, in order of class.

    Parameters
    ----------
    synthetic : array of int, shape (K, C)
        Images of each class that every client has.

    Returns
    -------
    list of Choice
        Within a class every client's first image, then every client's second, and so on.
    """
    rows = min(synthetic.shape[1], MOST_CLASSES)
    columns = min(PER_CLASS, _MOST_IMAGES // rows)
    return [
        Choice(client, label, number)
        for label in range(rows)
        for client, number in _in_turn(synthetic[:, label])[:columns]
    ]


def _in_turn(have: NDArray[np.int64]) -> list[tuple[int, int]]:
    numbers = range(min(int(have.max(initial=0)), PER_CLASS))
    return [(client, n) for n in numbers for client in np.flatnonzero(have > n).tolist()]


def _told(settings: Settings, run: Run) -> Settings:
    """Return the settings that also find a generator that the clients have trained."""
    from fedeas_app.generators.federated.handout import told

    return told(settings, str(run.plan.get("generator-digest", "")))


def _write(settings: Settings, counts: ClassCounts, path: Path) -> None:
    from fedeas_app.generators.grid import png, tile

    chosen = choose(counts.synthetic)
    found = _look_up(settings, chosen, clients=len(counts.real))
    if not found:
        return
    shown = [choice for choice in chosen if choice in found]
    rows = range(min(len(counts.classes), MOST_CLASSES))
    bare = sorted(set(rows) - {choice.label for choice in shown})
    images = [_shrunk(found[choice]) for choice in shown]
    images += [np.full_like(images[0], _PAPER) for _ in bare]
    labels = np.array([choice.label for choice in shown] + bare)
    write_bytes(path, png(tile(np.stack(images), labels, PER_CLASS)))


def _look_up(settings: Settings, chosen: Sequence[Choice], clients: int) -> Mapping[Choice, Images]:
    """Return those of the images that the clients' caches hold."""
    from fedeas_app.client import Client

    found: dict[Choice, Images] = {}
    for client in sorted({choice.client for choice in chosen}):
        places = [choice[1:] for choice in chosen if choice.client == client]
        held = Client(settings, client, clients).drawer.look_up(places)
        found |= {Choice(client, *place): image for place, image in held.items()}
    return found


def _shrunk(image: Images) -> Images:
    """Return an image of shape (height, width, channels), no side of it above the limit."""
    from PIL import Image

    height, width, channels = image.shape
    factor = _LARGEST / max(height, width)
    if factor >= 1:
        return image
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    small = Image.fromarray(image[:, :, 0] if channels == 1 else image).resize(size)
    return np.asarray(small, np.uint8).reshape(size[1], size[0], channels)
