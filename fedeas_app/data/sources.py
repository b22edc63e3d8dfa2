"""Where images come from: the digits of scikit-learn, a local folder or file, or the hub."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedeas_app.data import columns
from fedeas_app.data.decode import NamedImage
from fedeas_app.data.divisions import FIFTH, Division
from fedeas_app.data.folders import IMAGE_SUFFIXES, all_files, empty_folders, image_folder
from fedeas_app.data.huggingface import load_hub, load_parquet, to_source
from fedeas_app.data.idx import idx_folder, is_idx_folder
from fedeas_app.data.tables import Source, Table
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings

DIGITS = "digits"
_LOCAL = ("/", "./", "../", "~")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


@dataclass(frozen=True)
class Rows:
    """One split, numbered but not yet decoded; the images come in the order of the labels."""

    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    images: Iterator[NamedImage]


def fingerprint(settings: Settings) -> list[Any]:
    """Return what identifies the content: for local data, each file's name, size and time.

    A subset is added only where one is asked for, so that what has none is found again.

    Raises
    ------
    UserError
        The local path does not exist, or the id is not one the hub could have.
    """
    subset = [settings.dataset_subset] if settings.dataset_subset else []
    return _whole(settings) + subset


def _whole(settings: Settings) -> list[Any]:
    if settings.dataset == DIGITS:
        return [DIGITS]
    if not is_local(settings.dataset):
        return ["hub", _hub_id(settings.dataset), settings.dataset_revision]
    root = _local_path(settings.dataset)
    stamps = sorted(_stamp(root, file) for file in all_files(root) if _counts(root, file))
    return ["local", str(root), stamps]


def open_rows(
    settings: Settings, split: Literal["train", "test"], scratch: Path, division: Division = FIFTH
) -> Rows:
    """Find the images and labels of one split.

    Parameters
    ----------
    settings : Settings
    split : {"train", "test"}
    scratch : Path
        An empty directory that must live until the images were read.
    division : Division
        What to do where there is no test split; by default, a fixed stratified fifth of the
        training set is held out as one.

    Raises
    ------
    UserError
        The dataset cannot be found or understood.
    """
    source = _source(settings, scratch)
    found = _classes(source, settings)
    if source.test is None or found.test is None:
        chosen = division.rows(source.train.labels)[0 if split == "train" else 1]
        return Rows(found.train[chosen], found.names, source.train.images(chosen))
    table, labels = (source.train, found.train) if split == "train" else (source.test, found.test)
    return Rows(labels, found.names, table.images(np.arange(len(labels))))


def is_local(dataset: str) -> bool:
    """Tell a path on this machine from a hub id and from the digits."""
    return dataset.startswith(_LOCAL)


def empty_classes(settings: Settings) -> list[str]:
    """Return the names of an image folder's training classes that have no image, sorted.

    Of any other source there are none to be seen.

    Raises
    ------
    UserError
        The local path does not exist.
    """
    if not is_local(settings.dataset):
        return []
    root = _local_path(settings.dataset)
    return empty_folders(root) if _is_image_folder(root) else []


def _classes(source: Source, settings: Settings) -> columns.Classes:
    train, test = source.train.labels, source.test.labels if source.test else None
    if settings.class_list:
        return columns.onto(settings.class_list, train, test, source.class_names, settings.dataset)
    return columns.classes(train, test, source.class_names)


def _source(settings: Settings, scratch: Path) -> Source:
    if settings.dataset == DIGITS:
        _refuse_subset(settings, "the dataset is 'digits'")
        return _digits()
    if not is_local(settings.dataset):
        return to_source(load_hub(settings), settings)
    root = _local_path(settings.dataset)
    if is_idx_folder(root):
        _refuse_subset(settings, f"{root} is a folder of IDX files")
        return idx_folder(root)
    if _is_image_folder(root):
        _refuse_subset(settings, f"{root} is a folder without parquet files")
        return image_folder(root)
    if root.is_file():
        _refuse_subset(settings, f"{root} is one file")
    return to_source(load_parquet(root, scratch, settings.dataset_subset), settings)


def _refuse_subset(settings: Settings, why: str) -> None:
    if settings.dataset_subset:
        raise UserError(
            f"dataset-subset is {settings.dataset_subset!r}, but {why}, and only a hub dataset or "
            "a folder of parquet files has subsets; leave it empty."
        )


def _is_image_folder(root: Path) -> bool:
    if not root.is_dir() or is_idx_folder(root):
        return False
    return not any(file.suffix == ".parquet" for file in all_files(root))


def _digits() -> Source:
    from sklearn.datasets import load_digits

    values, labels = load_digits(return_X_y=True)
    # Stored as 0..16; whole steps of 255/16 keep the 17 grey levels apart.
    grey = np.rint(values.reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)

    def images(rows: NDArray[np.int64]) -> Iterator[NamedImage]:
        return ((f"{row} of digits", grey[row]) for row in rows)

    return Source(Table(labels, images), None, tuple("0123456789"))


def _hub_id(dataset: str) -> str:
    if not _HUB_ID.fullmatch(dataset):
        raise UserError(
            f"dataset is {dataset!r}; 'digits', a hub id such as 'uoft-cs/cifar10', or a local "
            "path that begins with /, ./, ../ or ~/ is allowed."
        )
    return dataset


def _counts(root: Path, file: Path) -> bool:
    """Tell data from files that come and go beside it, be it the cache itself."""
    if file.suffix.lower() in (".parquet", *IMAGE_SUFFIXES):
        return True
    if "-ubyte" in file.name:
        return True
    return file.parent == root and file.name in {"README.md", "dataset_infos.json"}


def _stamp(root: Path, file: Path) -> tuple[str, int, int]:
    try:
        status = file.stat()
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"The file {file} cannot be read ({reason}); remove it.") from error
    return file.relative_to(root).as_posix(), status.st_size, status.st_mtime_ns


def _local_path(dataset: str) -> Path:
    try:
        path = Path(dataset).expanduser().resolve()
    except RuntimeError as error:  # ~someone who does not exist
        raise UserError(f"The dataset {dataset!r} names an unknown home directory.") from error
    if not path.exists():
        raise UserError(f"The dataset {path} does not exist; correct the path.")
    if path.is_file() and path.suffix != ".parquet":
        raise UserError(
            f"The dataset {path} is not a parquet file; give a file named *.parquet, a folder of "
            "such files, a folder of IDX files, or one with a subfolder of images for each class."
        )
    return path
