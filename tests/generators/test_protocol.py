"""A generator must fit the dataset."""

from types import SimpleNamespace

import pytest

from fedeas_app.errors import UserError
from fedeas_app.generators import require_fit


def generator(names):
    return SimpleNamespace(name="'g'", num_classes=3, class_names=names, image_shape=(8, 6, 1))


@pytest.mark.parametrize("names", [("a", "b", "c"), None])
def test_a_generator_that_fits(names):
    require_fit(generator(names), ("a", "b", "c"), (8, 6, 1))


@pytest.mark.parametrize(
    ("classes", "shape", "words"),
    [
        ("abcd", (8, 6, 1), "The generator 'g' knows 3 classes, but the dataset has 4;"),
        ("abd", (8, 6, 1), "'g' knows the classes a, b, c, but the dataset has a, b, d;"),
        ("acb", (8, 6, 1), "'g' knows the classes a, b, c, but the dataset has a, c, b;"),
        ("abc", (6, 8, 1), "images of 6x8 pixels and 1 channel, but the dataset holds 8x6 pixels"),
        ("abc", (8, 6, 3), "1 channel, but the dataset holds 6x8 pixels and 3 channels;"),
    ],
)
def test_both_sides_are_named(classes, shape, words):
    with pytest.raises(UserError) as caught:
        require_fit(generator(("a", "b", "c")), tuple(classes), shape)
    assert words in str(caught.value)
    assert "name a generator trained on this dataset" in str(caught.value)
