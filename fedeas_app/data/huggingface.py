"""Datasets in the format of the Hugging Face hub: there, or as parquet files on this machine."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedeas_app.data import columns
from fedeas_app.data.decode import Encoded, NamedImage
from fedeas_app.data.tables import TEST_NAMES, Source, Table
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings

if TYPE_CHECKING:
    from datasets import Dataset

_ROWS_AT_A_TIME = 32  # encoded photographs can be megabytes each
# How the dataset library says that no subset was named, or one that there is not.
_SUBSETS = re.compile(
    r"(?:Config name is missing\.\s+Please pick one among the available configs"
    r"|BuilderConfig .* not found\. Available): \[(.*)\]"
)


def load_hub(settings: Settings) -> dict[str, "Dataset"]:
    """Load a hub dataset's training split and, where it has one, its test split.

    Raises
    ------
    UserError
        The hub cannot be reached, or has no such dataset or subset, or several to choose from.
    """
    from flwr_datasets import FederatedDataset

    name = settings.dataset
    if Path(name).exists():
        raise UserError(
            f"The dataset {name!r} is a hub id, but a file or folder of that name is here, and the "
            f"hub's library would take it; write './{name}' for it, or start elsewhere."
        )
    asked = {"revision": settings.dataset_revision, "subset": settings.dataset_subset}
    chosen = {key: value for key, value in asked.items() if value}
    try:
        # Unshuffled, so that the hub's copy and a local one give the same arrays.
        with _retries_untold():
            dataset = FederatedDataset(dataset=name, partitioners={}, shuffle=False, **chosen)
            splits = {"train": dataset.load_split("train")}
    except Exception as error:  # Offline, unknown, private: each its own exception.
        _refuse_choice(error, repr(name), settings.dataset_subset)
        raise UserError(
            f"The dataset {name!r} cannot be loaded from the Hugging Face hub "
            f"({_one_line(error)}); check the id, dataset-revision and the network. "
            "A local path must begin with /, ./, ../ or ~/."
        ) from error
    for test in TEST_NAMES:
        with suppress(ValueError):  # no split of that name
            return splits | {"test": dataset.load_split(test)}
    return splits


def load_parquet(root: Path, scratch: Path, subset: str = "") -> dict[str, "Dataset"]:
    """Read a parquet file or a folder of such files, without touching the network.

    Not through ``FederatedDataset``, which reports each use to its makers.

    Parameters
    ----------
    root : Path
    scratch : Path
        Takes the intermediate files; it must live until the images were read.
    subset : str
        One of those that the folder's README.md declares; empty: the only one, or its default.

    Raises
    ------
    UserError
        The files cannot be read, none is for training, or the README.md has no such subset, or
        several to choose from.
    """
    import datasets

    if set("*?[]") & set(str(root)):
        raise UserError(
            f"The path {root} has one of * ? [ ], which the dataset library takes for a pattern; "
            "rename it."
        )
    try:
        with _quiet():
            if root.is_dir():
                name = subset or None
                found = dict(datasets.load_dataset(str(root), name, cache_dir=str(scratch)))
            else:
                # load_dataset("parquet", ...) would count the use over the network.
                found = {"train": datasets.Dataset.from_parquet(str(root), cache_dir=str(scratch))}
    except Exception as error:  # Of pyarrow, of fsspec, of YAML, of datasets.
        _refuse_choice(error, str(root), subset)
        reason = _one_line(error.__cause__ or error)
        raise UserError(
            f"The dataset {root} cannot be read as parquet ({reason}); repair it, or name the "
            "folder or file that holds the parquet files."
        ) from error
    if any(split.num_rows == 0 for split in found.values()):
        raise UserError(f"The dataset {root} has a split without a single row; fill or remove it.")
    if "train" not in found:
        raise UserError(f"The dataset {root} has no split named 'train', but {sorted(found)}.")
    test = next((found[name] for name in TEST_NAMES if name in found), None)
    return {"train": found["train"]} | ({} if test is None else {"test": test})


def to_source(splits: dict[str, "Dataset"], settings: Settings) -> Source:
    """Find the columns of labels and images.

    Raises
    ------
    UserError
        They cannot be found, differ between the splits, or a label is missing.
    """
    features = splits["train"].features
    image = columns.image_column(features, settings.image_column)
    label = columns.label_column(features, settings.label_column)
    root = _root(settings)
    tables = {name: _table(name, split, image, label, root) for name, split in splits.items()}
    declared = getattr(features[label], "names", None)
    names = None if declared is None else tuple(declared)
    return Source(tables["train"], tables.get("test"), names)


def _refuse_choice(error: Exception, dataset: str, subset: str) -> None:
    """Say which subsets there are, where the error is of the one asked for."""
    declared = _SUBSETS.search(str(error))
    if declared is None:
        return
    if subset:
        raise UserError(
            f"The dataset {dataset} has no subset {subset!r}, but {declared[1]}; set "
            "dataset-subset to one that it has."
        ) from error
    raise UserError(
        f"The dataset {dataset} has the subsets {declared[1]}; set dataset-subset to one of them, "
        "or name a folder that holds one alone, as pool-dataset, test-dataset and data-path must."
    ) from error


def _root(settings: Settings) -> Path:
    """Return the directory in which files that a row names may lie."""
    local = Path(settings.dataset).expanduser()
    if local.exists() and settings.dataset.startswith(("/", ".", "~")):
        return local.resolve()
    import datasets

    return Path(datasets.config.HF_CACHE_HOME).expanduser().resolve()


def _table(split: str, dataset: "Dataset", image: str, label: str, root: Path) -> Table:
    missing = {image, label} - set(dataset.features)
    if missing:
        raise UserError(
            f"The {split} split lacks the column {sorted(missing)[0]!r} of the training split; "
            f"it has {', '.join(map(repr, dataset.features))}."
        )
    images = partial(_column_images, dataset, image, root)
    return Table(_raw_labels(split, dataset, label), images)


def _raw_labels(split: str, dataset: "Dataset", label: str) -> NDArray[Any]:
    column = dataset.select_columns([label]).with_format("arrow")[:][label]
    if len(column) == 0:
        raise UserError(f"The {split} split has no rows; give it some or remove it.")
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise UserError(
            f"The column {label!r} has no label in row {row} of the {split} split and in "
            f"{column.null_count} in all; remove such rows or set label-column."
        )
    return np.array(column.to_pylist())


def _column_images(
    dataset: "Dataset", column: str, root: Path, rows: NDArray[np.int64]
) -> Iterator[NamedImage]:
    import datasets

    # Undecoded, so that an image that cannot be read can be named.
    encoded = dataset.select_columns([column]).cast_column(column, datasets.Image(decode=False))
    names = (f"{row} of column {column!r}" for row in rows)
    for batch in encoded.select(rows).iter(batch_size=_ROWS_AT_A_TIME):
        for value in batch[column]:
            name = next(names)
            yield name, _encoded(name, value, root)


def _encoded(name: str, value: Mapping[str, Any] | None, root: Path) -> Encoded:
    if value is None:
        return None
    if value.get("bytes") is not None:
        return bytes(value["bytes"])
    if not value.get("path"):
        return None
    path = Path(value["path"]).resolve()
    if not path.is_relative_to(root):  # anybody may have written the table
        raise UserError(
            f"Image {name} is the file {path}, which lies outside of {root}; store the images "
            "themselves in the table."
        )
    return path


@contextmanager
def _retries_untold() -> Iterator[None]:
    """Keep the hub library from telling of each retry: the outcome becomes one sentence."""
    hub = logging.getLogger("huggingface_hub")
    level = hub.level
    hub.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        hub.setLevel(level)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library's progress bars and log lines off the screen: errors become sentences."""
    from datasets import utils

    hidden, verbosity = utils.are_progress_bars_disabled(), utils.logging.get_verbosity()
    utils.disable_progress_bars()
    utils.logging.set_verbosity(utils.logging.CRITICAL)
    try:
        yield
    finally:
        utils.logging.set_verbosity(verbosity)
        if not hidden:
            utils.enable_progress_bars()


def _one_line(error: BaseException, most: int = 300) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:most].rstrip(".")
