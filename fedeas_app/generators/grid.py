"""A look at a generator: some images of every class, and one picture of them all."""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedeas_app import seeds
from fedeas_app.files import write_bytes
from fedeas_app.generators.protocol import Generator, OnBatch

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]

_READABLE = 64  # pixels a side that smaller images are enlarged towards
_GAP = 2  # pixels between images
_PAPER = 128  # neither the black nor the white that images often end in


def draw(
    generator: Generator, per_class: int, seed: int, on_batch: OnBatch | None = None
) -> tuple[Images, Labels]:
    """Make as many images of every class, from other seeds than those of clients.

    Parameters
    ----------
    generator : Generator
    per_class : int
    seed : int
        An image depends on this seed, its label and its number within its class.
    on_batch : callable, optional
        As in :meth:`fedeas_app.generators.Generator.generate`.

    Returns
    -------
    images : array of uint8, shape (n, height, width, channels)
        In order of class, then number.
    labels : array of int64, shape (n,)
    """
    places = [(label, i) for label in range(generator.num_classes) for i in range(per_class)]
    labels = np.array([label for label, _ in places], np.int64)
    own = np.array([seeds.derive("sample", seed, *place) for place in places], np.int64)
    return generator.generate(labels, own, on_batch), labels


def write_grid(images: Images, labels: Labels, path: Path, columns: int = 10) -> None:
    """Write a PNG with one row for each class, whole or not at all.

    Parameters
    ----------
    images : array of uint8, shape (n, height, width, channels)
        One channel (grey) or three (RGB); small images are enlarged by a whole factor.
    labels : array of int, shape (n,)
    path : Path
    columns : int
        The first so many images of each class are shown.
    """
    write_bytes(path, png(tile(images, labels, columns)))


def tile(images: Images, labels: Labels, columns: int) -> Images:
    """Lay images out on one sheet, a row for each class; shape (height, width, channels)."""
    factor = max(1, _READABLE // max(images.shape[1:3]))
    large = images.repeat(factor, axis=1).repeat(factor, axis=2)
    rows = [large[labels == label][:columns] for label in np.unique(labels)]
    height, width, channels = large.shape[1:]
    down, right = height + _GAP, width + _GAP
    across = max(len(row) for row in rows)
    shape = (len(rows) * down + _GAP, across * right + _GAP, channels)
    sheet = np.full(shape, _PAPER, np.uint8)
    for i, row in enumerate(rows):
        for j, image in enumerate(row):
            top, left = _GAP + i * down, _GAP + j * right
            sheet[top : top + height, left : left + width] = image
    return sheet


def png(image: Images) -> bytes:
    """Encode one image of shape (height, width, channels)."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image).save(stream, "png")
    return stream.getvalue()
