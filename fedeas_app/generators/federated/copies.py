"""Whether a generator gives a client's own images away, as only that client can tell."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedeas_app import seeds
from fedeas_app.client import Client
from fedeas_app.generators import open_generator
from fedeas_app.generators.judging import Images, evenly, nearest_distances, nearest_others
from fedeas_app.settings import Settings

# An image is a copy if it is nearer to a training image than half of what lies between training
# images as a rule (ours): of real images that were not trained on, next to none is.
NEAR: Final = 0.5
_MEASURED = 2000  # own images whose nearest others are sought: a median needs no more


def count_copies(client: Client) -> tuple[int, int]:
    """Draw some images of the classes that a client has, and hold them against its own.

    Images of classes that it lacks cannot be copies of its images. Neither image nor distance
    leaves the client.

    Returns
    -------
    checked, copies : int
        0 where fewer than two images leave nothing to measure with.
    """
    own = client.dataset.images[client.indices]
    checked = to_check(client.settings, len(own))
    if not checked:
        return 0, 0
    labels = _spread(np.sort(client.labels), checked)
    streams = [_seed(client, number) for number in range(checked)]
    made = open_generator(client.settings).generate(labels, np.array(streams, np.int64))
    return checked, copies_among(made, own)


def to_check(settings: Settings, own: int) -> int:
    """Return how many images a client with so many of its own looks at."""
    return settings.generator_checked if own >= 2 else 0


def copies_among(made: Images, own: Images) -> int:
    """Count the images that are nearer to one of the own images than these are to each other.

    Parameters
    ----------
    made, own : array of uint8, shape (n, height, width, channels) and (m, height, width, channels)

    Returns
    -------
    int
        How many lie within half of the median distance of an own image to its nearest other one.
        Where more than half of the own images are there twice, none does.
    """
    asked = evenly(np.arange(len(own)), _MEASURED)
    usual = float(np.median(nearest_others(own, asked)))
    return int((nearest_distances(made, own) < NEAR * usual).sum())


def _spread(labels: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return so many labels, in the proportions of these."""
    places = (np.arange(count) + 0.5) * len(labels) / count
    return labels[places.astype(np.int64)]


def _seed(client: Client, number: int) -> int:
    return seeds.derive("generator-copies", client.settings.seed, client.partition_id, number)
