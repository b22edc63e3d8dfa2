"""Folders of images, one subfolder for each class."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedeas_app.data.decode import NamedImage
from fedeas_app.data.tables import TEST_NAMES, Source, Table
from fedeas_app.errors import UserError

IMAGE_SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
    *(".pbm", ".pgm", ".pnm", ".ppm"),
)


def image_folder(root: Path) -> Source:
    """List ``root/class/*.png``, or ``root/train/class/*.png`` with or without ``root/test/...``.

    Raises
    ------
    UserError
        No images are found.
    """
    train = _training_part(root)
    if train == root:
        return Source(_folder_table(root), None, None)
    test = next((root / name for name in TEST_NAMES if (root / name).is_dir()), None)
    return Source(_folder_table(train), _folder_table(test) if test else None, None)


def empty_folders(root: Path) -> list[str]:
    """Return the names of the training part's subfolders that have no image, sorted."""
    folders = (entry for entry in entries(_training_part(root)) if entry.is_dir())
    return [folder.name for folder in folders if not any(_images(folder))]


def _training_part(root: Path) -> Path:
    """Return ``root/train`` if it has subfolders, else the root: "train" may be a class."""
    train = root / "train"
    return train if any(path.is_dir() for path in entries(train)) else root


def _folder_table(folder: Path) -> Table:
    pairs = [
        (file, entry.name)
        for entry in entries(folder)
        if entry.is_dir()
        for file in sorted(_images(entry))
    ]
    if not pairs:
        raise UserError(
            f"The folder {folder} has no images in subfolders named after their classes, and no "
            "parquet files; arrange it as class/image.png or train/class/image.png."
        )
    labels = np.array([label for _, label in pairs])

    def images(rows: NDArray[np.int64]) -> Iterator[NamedImage]:
        return ((str(pairs[row][0]), pairs[row][0]) for row in rows)

    return Table(labels, images)


def _images(folder: Path) -> Iterator[Path]:
    return (file for file in all_files(folder) if file.suffix.lower() in IMAGE_SUFFIXES)


def entries(folder: Path) -> list[Path]:
    """Return what a folder holds, sorted, without hidden entries; nothing when it is absent."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def all_files(root: Path) -> Iterator[Path]:
    """Yield the files below a folder, or the file itself, without hidden ones."""
    if root.is_file():
        yield root
    for folder, subfolders, names in os.walk(root, followlinks=True):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        yield from (Path(folder, name) for name in names if not name.startswith("."))
