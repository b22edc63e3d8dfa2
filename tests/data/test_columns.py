import re

import datasets
import numpy as np
import pytest

from fedeas_app.data import columns
from fedeas_app.errors import UserError

IMAGE = datasets.Image()
BYTES = datasets.Value("binary")
STRUCT = {"bytes": BYTES, "path": datasets.Value("string")}
NUMBER = datasets.Value("int64")
TEXT = datasets.Value("string")
FRACTION = datasets.Value("float32")
CLASS = datasets.ClassLabel(names=["a", "b"])


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"scan": IMAGE, "label": CLASS}, "scan"),
        ({"img": IMAGE, "mask": IMAGE, "label": CLASS}, "img"),
        ({"Image": BYTES, "thumbnail": BYTES, "label": CLASS}, "Image"),
        ({"picture": STRUCT, "label": CLASS}, "picture"),
        ({"image": TEXT, "scan": IMAGE}, "scan"),
    ],
)
def test_image_column_is_found(features, expected):
    assert columns.image_column(features, "") == expected


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"image": IMAGE, "kind": CLASS, "id": NUMBER}, "kind"),
        ({"image": IMAGE, "coarse_label": CLASS, "fine_label": CLASS}, "fine_label"),
        ({"image": IMAGE, "label": NUMBER, "caption": TEXT}, "label"),
        ({"image": IMAGE, "y": TEXT, "class": TEXT}, "class"),
        ({"image": IMAGE, "Target": datasets.Value("bool")}, "Target"),
    ],
)
def test_label_column_is_found(features, expected):
    assert columns.label_column(features, "") == expected


def test_the_wish_counts():
    features = {"a": IMAGE, "image": IMAGE, "label": CLASS, "other": TEXT}
    assert columns.image_column(features, "a") == "a"
    assert columns.label_column(features, "other") == "other"


@pytest.mark.parametrize(
    ("find", "wanted", "beginning"),
    [
        ("image", "", "The image column is not evident; set image-column to a column of images"),
        ("image", "nope", "image-column is 'nope'; set image-column to a column of images"),
        ("image", "size", "image-column is 'size'; set image-column to a column of images"),
        ("label", "", "The label column is not evident; set label-column to a column of whole "),
        ("label", "size", "label-column is 'size'; set label-column to a column of whole numbers"),
    ],
)
def test_what_cannot_be_found_is_said_with_the_columns(find, wanted, beginning):
    features = {"left": IMAGE, "right": IMAGE, "size": FRACTION, "kind": TEXT}
    with pytest.raises(UserError, match="^" + re.escape(beginning)) as caught:
        getattr(columns, f"{find}_column")(features, wanted)
    listed = "'left' (Image), 'right' (Image), 'size' (float32), 'kind' (string)."
    assert str(caught.value).endswith(f": the dataset has {listed}")


def test_declared_classes_are_kept():
    found = columns.classes(np.array([1, 1]), np.array([0]), ["a", "b", "c"])
    assert found.names == ("a", "b", "c")
    np.testing.assert_array_equal(found.train, [1, 1])
    np.testing.assert_array_equal(found.test, [0])


def test_texts_are_sorted():
    found = columns.classes(np.array(["dog", "cat", "dog"]), np.array(["dog"]), None)
    assert found.names == ("cat", "dog")
    np.testing.assert_array_equal(found.train, [1, 0, 1])
    np.testing.assert_array_equal(found.test, [1])


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int16])
def test_numbers_with_gaps_become_contiguous(kind):
    found = columns.classes(np.array([30, 5, 5, 7], dtype=kind), None, None)
    assert found.names == ("5", "7", "30")
    np.testing.assert_array_equal(found.train, [2, 0, 0, 1])
    assert found.train.dtype == np.int64
    assert found.test is None


@pytest.mark.parametrize(
    ("train", "test", "declared", "message"),
    [
        (["a", "b"], ["b", "c"], None,
         "The test set has labels that the training set lacks: 'c'; remove these images or add "
         "such images to the training set."),
        ([1, 2], list(range(20)), None,
         "The test set has labels that the training set lacks: 0, 3, 4, 5, 6, 7, 8, 9, 10, 11 and "
         "8 more; remove these images or add such images to the training set."),
        ([0, 1], [-1, -1, 2], ["a", "b"],
         "The dataset declares 2 classes, but has the labels -1, 2; remove the rows without a "
         "true label."),
        (["cat", "cat"], None, None,
         "The dataset has one class, 'cat'; at least two are needed: check label-column, or the "
         "subfolders of an image folder."),
    ],
)  # fmt: skip
def test_impossible_labels_are_said(train, test, declared, message):
    test = None if test is None else np.array(test)
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        columns.classes(np.array(train), test, declared)


def test_labels_map_by_name_onto_a_given_list():
    found = columns.onto(("c", "b", "a"), np.array(["a", "c"]), np.array(["b"]), None, "/x")
    assert found.names == ("c", "b", "a")
    assert (found.train.tolist(), found.test.tolist()) == ([2, 0], [1])


def test_declared_labels_map_by_their_declared_name():
    declared = ("x", "b", "a")  # x has no image: it may be missing from the list
    found = columns.onto(("a", "b"), np.array([2, 1, 2]), None, declared, "/x")
    assert found.train.tolist() == [0, 1, 0]
    assert found.test is None
    with pytest.raises(UserError, match="declares 3 classes, but has the labels 3"):
        columns.onto(("a", "b"), np.array([3]), None, declared, "/x")


@pytest.mark.parametrize(("train", "test"), [(["a", "z"], ["b"]), (["a"], ["z"])])
def test_a_name_that_the_list_lacks_is_told(train, test):
    with pytest.raises(UserError) as caught:
        columns.onto(("a", "b"), np.array(train), np.array(test), None, "/x")
    assert str(caught.value) == (
        "The dataset /x has images of the class 'z', but classes lists 'a', 'b'; rename the class, "
        "take it out, or set another list."
    )
