"""Training and test sets as memory-mapped arrays that all processes of a machine share."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedeas_app import files, seeds
from fedeas_app.data import decode, sources
from fedeas_app.data.divisions import FIFTH, Division
from fedeas_app.errors import UserError
from fedeas_app.reading import read_array, read_json
from fedeas_app.settings import Settings
from fedeas_app.store import DamagedError, load_or_build

SplitName = Literal["train", "test"]

# Part of every key: raise it when the same source would be decoded to other pixels or labels.
_FORMAT = 1


@dataclass(frozen=True)
class Split:
    """One part of a dataset.

    Attributes
    ----------
    images : ndarray of uint8, shape (N, H, W, channels)
        Read-only, 0..255; one channel (grey) or three (RGB). A memory map.
    labels : ndarray of int64, shape (N,)
        Read-only, in [0, C).
    class_names : tuple of str, length C
        The global class list, the same for both splits.
    digest : str
        SHA-256 over images, labels and class names.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    digest: str

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels)."""
        _, height, width, channels = self.images.shape
        return height, width, channels


def load_split(
    settings: Settings, split: SplitName, *, verify: bool = False, division: Division = FIFTH
) -> Split:
    """Load the training or test set, decoding it the first time.

    The decoded arrays live in ``cache_path/datasets/<key>``. The key covers the dataset's name,
    revision and subset, the columns, the class list, the image size and, for local data, the size
    and modification time of each file, so changed data is decoded anew. A hub dataset without
    ``dataset-revision`` stays at the revision of its first use. Later calls neither import the
    dataset libraries nor contact anything. ``train_samples`` of it are a directory of their own,
    drawn once for all processes, which would otherwise copy them for every message.

    Parameters
    ----------
    settings : Settings
        ``dataset``, ``dataset_revision``, ``dataset_subset``, ``image_column``, ``label_column``,
        ``classes``, ``image_size``, ``image_channels``, ``train_samples``, ``test_samples``,
        ``seed`` and ``cache_dir`` are used.
    split : {"train", "test"}
    verify : bool
        Compare the cached pixels with their digest, and decode anew when they differ. It reads
        all of them: once a run, by the server, is enough.
    division : Division
        How a dataset without a test split is divided.

    Returns
    -------
    Split

    Raises
    ------
    UserError
        The dataset cannot be found, understood or decoded, the cache cannot be written, or more
        samples are asked for than there are.
    """
    key, root = _key(settings, split, division), settings.cache_path / "datasets"
    read = partial(read_split, verify=verify)
    fill = partial(_fill, settings=settings, split=split, division=division)
    wanted = settings.train_samples if split == "train" else settings.test_samples
    if not wanted:
        return load_or_build(root / key, read, fill)
    draw = partial(_draw_subset, root / key, fill, settings=settings, split=split, wanted=wanted)
    return load_or_build(root / _subset_key(key, wanted, settings.seed), read, draw)


def is_decoded(settings: Settings) -> bool:
    """Tell whether the training set lies decoded in the cache; nothing of it is read.

    Raises
    ------
    UserError
        A local path does not exist, or the id is not one the hub could have.
    """
    return (settings.cache_path / "datasets" / _key(settings, "train", FIFTH)).is_dir()


def digest(
    images: NDArray[np.uint8], labels: NDArray[np.int64], class_names: tuple[str, ...]
) -> str:
    """Return the SHA-256 over shapes, class names, pixels and labels."""
    state = hashlib.sha256(json.dumps([images.shape, class_names]).encode())
    state.update(np.ascontiguousarray(images).data)
    state.update(np.ascontiguousarray(labels).data)
    return state.hexdigest()


def read_split(directory: Path, *, verify: bool) -> Split:
    """Read a decoded split from its directory in the cache.

    Parameters
    ----------
    directory : Path
    verify : bool
        Compare the pixels with their digest, which reads all of them.

    Raises
    ------
    DamagedError
        The directory does not hold what was decoded.
    """
    try:
        meta = read_json(directory / "meta.json")
        images, labels = (read_array(directory / f"{name}.npy") for name in ("images", "labels"))
        split = _checked(images, np.array(labels), meta)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(str(error)) from error
    if verify and digest(split.images, split.labels, split.class_names) != split.digest:
        raise DamagedError("the stored images are not those that were decoded")
    return split


def _key(settings: Settings, split: SplitName, division: Division) -> str:
    parts: list[Any] = [
        _FORMAT,
        split,
        sources.fingerprint(settings),
        settings.image_column,
        settings.label_column,
        settings.image_size,
    ]
    if settings.class_list or settings.image_channels or division is not FIFTH:
        parts += [settings.class_list, settings.image_channels, division.name]
    return files.sha256(json.dumps(parts).encode())


def _fill(directory: Path, *, settings: Settings, split: SplitName, division: Division) -> None:
    # The source's own intermediate files must not outlive the decoding.
    with tempfile.TemporaryDirectory(prefix="source-", dir=directory) as scratch:
        rows = sources.open_rows(settings, split, Path(scratch), division)
        decode.write_images(
            directory / "images.npy",
            rows.images,
            len(rows.labels),
            settings.image_size,
            settings.image_channels,
        )
    _describe(directory, rows.labels, rows.class_names, settings, split)


def _describe(
    directory: Path,
    labels: NDArray[np.int64],
    class_names: tuple[str, ...],
    settings: Settings,
    split: SplitName,
) -> None:
    """Put beside the images of a directory what else makes a split of them."""
    np.save(directory / "labels.npy", labels, allow_pickle=False)
    images = np.load(directory / "images.npy", mmap_mode="r", allow_pickle=False)
    meta = {
        "dataset": settings.dataset + settings.subset_note,
        "split": split,
        "shape": images.shape,
        "class_names": class_names,
        "digest": digest(images, labels, class_names),
    }
    files.write_text(directory / "meta.json", json.dumps(meta, indent=2))


def _checked(images: NDArray[Any], labels: NDArray[Any], meta: Mapping[str, Any]) -> Split:
    names = tuple(map(str, meta["class_names"]))
    if images.dtype != np.uint8 or images.shape != tuple(meta["shape"]) or images.ndim != 4:
        raise ValueError(f"images.npy holds {images.dtype} of shape {images.shape}")
    if labels.dtype != np.int64 or labels.shape != images.shape[:1]:
        raise ValueError(f"labels.npy holds {labels.dtype} of shape {labels.shape}")
    if labels.size and (labels.min() < 0 or labels.max() >= len(names)):
        raise ValueError("labels.npy holds labels outside the class list")
    labels.setflags(write=False)
    return Split(images, labels, names, str(meta["digest"]))


def _subset_key(key: str, wanted: int, seed: int) -> str:
    return files.sha256(json.dumps([key, "subset", wanted, seed]).encode())


def _draw_subset(
    target: Path,
    fill: Callable[[Path], None],
    directory: Path,
    *,
    settings: Settings,
    split: SplitName,
    wanted: int,
) -> None:
    """Draw so many of the images of the split in ``target``, which ``fill`` makes."""
    whole = load_or_build(target, partial(read_split, verify=True), fill)
    available = len(whole.labels)
    if wanted > available:
        raise UserError(
            f"{split}-samples is {wanted}, but the {split} set has {available} images; "
            f"give at most {available}, or 0 for all."
        )
    rng = seeds.numpy_rng("subset", split, settings.seed)
    # In the stored order, so that the memory map is read from front to back.
    chosen = np.sort(rng.choice(available, wanted, replace=False))
    np.save(directory / "images.npy", whole.images[chosen], allow_pickle=False)
    _describe(directory, whole.labels[chosen], whole.class_names, settings, split)
