"""Which column holds the images, which the labels, and what the classes are."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedeas_app.errors import UserError

IMAGE_NAMES = ("img", "image", "images", "picture")
# In order of preference: CIFAR-100 has fine_label and coarse_label.
LABEL_NAMES = ("label", "labels", "fine_label", "class", "target", "y")


class Classes(NamedTuple):
    """The global class list, and each split's labels as indices into it."""

    names: tuple[str, ...]
    train: NDArray[np.int64]
    test: NDArray[np.int64] | None


def image_column(features: Mapping[str, Any], wanted: str) -> str:
    """Find the column of the images.

    Parameters
    ----------
    features : mapping
        The columns of a ``datasets.Dataset`` with their types.
    wanted : str
        The user's choice; empty: the only column of images, or one with a usual name.

    Returns
    -------
    str

    Raises
    ------
    UserError
        There is no such column, none or several could be meant, or it holds no images.
    """
    typed = [name for name, feature in features.items() if _is_image(feature)]
    possible = [name for name, feature in features.items() if _may_be_image(feature)]
    stages = (typed, _usual(typed, IMAGE_NAMES)[:1], _usual(possible, IMAGE_NAMES)[:1])
    return _choose("image", wanted, features, stages, possible)


def label_column(features: Mapping[str, Any], wanted: str) -> str:
    """Find the column of the labels, like :func:`image_column`; whole numbers or texts."""
    typed = [name for name, feature in features.items() if _is_class_label(feature)]
    possible = [name for name, feature in features.items() if _may_be_label(feature)]
    stages = (_usual(typed, LABEL_NAMES)[:1], typed, _usual(possible, LABEL_NAMES)[:1])
    return _choose("label", wanted, features, stages, possible)


def classes(
    train: NDArray[Any], test: NDArray[Any] | None, declared: Iterable[str] | None
) -> Classes:
    """Give the classes numbers 0..C-1, the same in both splits.

    Parameters
    ----------
    train, test : ndarray, shape (N,)
        The labels as stored: whole numbers or texts; ``test`` is None without a test split.
    declared : iterable of str or None
        The names of the classes when the dataset declares them: labels are then indices already.
        None: the sorted labels themselves are the classes.

    Raises
    ------
    UserError
        A label is missing or undeclared, the test set has one that the training set lacks, or
        there are fewer than two classes.
    """
    if declared is not None:
        return _several(_declared(train, test, tuple(declared)))
    values = np.unique(train)
    unknown = [] if test is None else np.setdiff1d(test, values).tolist()
    if unknown:
        raise UserError(
            f"The test set has labels that the training set lacks: {_listed(unknown)}; "
            "remove these images or add such images to the training set."
        )
    names = tuple(str(value) for value in values.tolist())
    numbered = None if test is None else np.searchsorted(values, test)
    return _several(Classes(names, np.searchsorted(values, train), numbered))


def onto(
    class_list: tuple[str, ...],
    train: NDArray[Any],
    test: NDArray[Any] | None,
    declared: Iterable[str] | None,
    dataset: str,
) -> Classes:
    """Give the labels numbers by the place of their names in a given list; see :func:`classes`.

    A number is named by its digits. Classes of the list may be missing.

    Parameters
    ----------
    class_list : tuple of str
    train, test, declared
        As for :func:`classes`.
    dataset : str
        How an error message calls the dataset.

    Raises
    ------
    UserError
        A label is undeclared, or its name is not in the list.
    """
    if declared is not None:
        own = np.array(list(declared))
        indices = _declared(train, test, tuple(own))
        train, test = own[indices.train], None if indices.test is None else own[indices.test]
    numbers = {name: number for number, name in enumerate(class_list)}
    numbered = None if test is None else _numbered(test, numbers, dataset)
    return Classes(class_list, _numbered(train, numbers, dataset), numbered)


def _numbered(labels: NDArray[Any], numbers: Mapping[str, int], dataset: str) -> NDArray[np.int64]:
    values, places = np.unique(labels, return_inverse=True)
    names = [str(value) for value in values.tolist()]
    if unknown := [name for name in names if name not in numbers]:
        raise UserError(
            f"The dataset {dataset} has images of the class {_listed(unknown)}, but classes lists "
            f"{_listed(numbers)}; rename the class, take it out, or set another list."
        )
    return np.array([numbers[name] for name in names], np.int64)[places]


def _declared(train: NDArray[Any], test: NDArray[Any] | None, names: tuple[str, ...]) -> Classes:
    for labels in (train, test):
        outside = [] if labels is None else labels[(labels < 0) | (labels >= len(names))].tolist()
        if outside:
            raise UserError(
                f"The dataset declares {len(names)} classes, but has the labels "
                f"{_listed(sorted(set(outside)))}; remove the rows without a true label."
            )
    numbered = None if test is None else test.astype(np.int64)
    return Classes(names, train.astype(np.int64), numbered)


def _several(found: Classes) -> Classes:
    if len(found.names) < 2:
        raise UserError(
            f"The dataset has one class, {_listed(found.names)}; at least two are needed: "
            "check label-column, or the subfolders of an image folder."
        )
    return found


def _choose(
    kind: str,
    wanted: str,
    features: Mapping[str, Any],
    stages: Iterable[list[str]],
    possible: list[str],
) -> str:
    if wanted in possible:
        return wanted
    alone = next((stage[0] for stage in stages if len(stage) == 1), None)
    if alone is not None and not wanted:
        return alone
    given = f"{kind}-column is {wanted!r}" if wanted else f"The {kind} column is not evident"
    content = "images" if kind == "image" else "whole numbers or texts"
    columns = ", ".join(f"{name!r} ({_kind(feature)})" for name, feature in features.items())
    raise UserError(
        f"{given}; set {kind}-column to a column of {content}: the dataset has {columns}."
    )


def _usual(names: list[str], order: tuple[str, ...]) -> list[str]:
    known = [name for name in names if name.lower() in order]
    return sorted(known, key=lambda name: order.index(name.lower()))


def _is_image(feature: object) -> bool:
    import datasets

    return isinstance(feature, datasets.Image)


def _may_be_image(feature: object) -> bool:
    if isinstance(feature, dict):
        return _may_be_image(feature.get("bytes"))
    return _is_image(feature) or getattr(feature, "dtype", "") in {"binary", "large_binary"}


def _is_class_label(feature: object) -> bool:
    import datasets

    return isinstance(feature, datasets.ClassLabel)


def _may_be_label(feature: object) -> bool:
    kinds = ("int", "uint", "bool", "string", "large_string")
    return str(getattr(feature, "dtype", "")).startswith(kinds)


def _kind(feature: object) -> str:
    if _is_image(feature) or _is_class_label(feature):
        return type(feature).__name__
    return str(getattr(feature, "dtype", None) or type(feature).__name__)


def _listed(values: Iterable[Any], most: int = 10) -> str:
    shown = [repr(value) for value in values]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if shown[most:] else "")
