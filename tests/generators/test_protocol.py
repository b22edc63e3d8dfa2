"""A generator must fit the dataset."""

from types import SimpleNamespace

import pytest

from fedeas_app.errors import UserError
from fedeas_app.generators import require_fit


def test_a_generator_that_fits():
    require_fit(SimpleNamespace(name="'g'", num_classes=3, image_shape=(8, 6, 1)), 3, (8, 6, 1))


@pytest.mark.parametrize(
    ("classes", "shape", "words"),
    [
        (4, (8, 6, 1), "The generator 'g' knows 3 classes, but the dataset has 4;"),
        (3, (6, 8, 1), "images of 6x8 pixels and 1 channel, but the dataset holds 8x6 pixels"),
        (3, (8, 6, 3), "1 channel, but the dataset holds 6x8 pixels and 3 channels;"),
    ],
)
def test_both_sides_are_named(classes, shape, words):
    generator = SimpleNamespace(name="'g'", num_classes=3, image_shape=(8, 6, 1))
    with pytest.raises(UserError) as caught:
        require_fit(generator, classes, shape)
    assert words in str(caught.value)
    assert "name a generator trained on this dataset" in str(caught.value)
