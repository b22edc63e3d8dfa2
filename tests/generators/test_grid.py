"""Images of every class, and the picture of them."""

import numpy as np
import pytest
from fake_generator import FakeGenerator
from PIL import Image

from fedeas_app import seeds
from fedeas_app.generators.grid import draw, png, tile, write_grid


def test_draws_every_class_with_seeds_of_its_own():
    fake = FakeGenerator()
    images, labels = draw(fake, 2, 5)
    assert labels.tolist() == [label for label in range(10) for _ in range(2)]
    assert np.array_equal(images[7], fake.image(3, seeds.derive("sample", 5, 3, 1)))
    assert np.array_equal(draw(fake, 1, 5)[0], images[::2])  # more images change none
    assert not np.array_equal(draw(fake, 2, 6)[0], images)


def test_draws_under_the_callers_eyes():
    batches = []
    draw(FakeGenerator(batch_size=8), 2, 0, lambda batch, images: batches.append(batch))
    assert [batch.start for batch in batches] == [0, 8, 16]


def test_a_row_for_each_class_and_the_first_columns():
    images = np.arange(5, dtype=np.uint8).repeat(64 * 64).reshape(5, 64, 64, 1)
    sheet = tile(images, np.array([4, 1, 4, 4, 1]), columns=2)
    assert sheet.shape == (2 * 66 + 2, 2 * 66 + 2, 1)
    centres = sheet[[34, 100]][:, [34, 100], 0]
    assert centres.tolist() == [[1, 4], [0, 2]]
    assert (sheet[:2] == 128).all()


def test_a_missing_image_is_paper():
    sheet = tile(np.zeros((3, 64, 64, 1), np.uint8), np.array([0, 0, 1]), columns=10)
    assert sheet[100, 100, 0] == 128


@pytest.mark.parametrize(("side", "factor"), [(8, 8), (28, 2), (32, 2), (64, 1), (100, 1)])
def test_small_images_are_enlarged_by_whole_factors(side, factor):
    image = np.random.default_rng(0).integers(0, 256, (1, side, side, 3), np.uint8)
    sheet = tile(image, np.array([0]), columns=1)[2:-2, 2:-2]
    assert sheet.shape == (side * factor, side * factor, 3)
    assert np.array_equal(sheet[::factor, ::factor], image[0])


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB")])
def test_the_file_holds_the_pixels(tmp_path, channels, mode):
    images = np.random.default_rng(0).integers(0, 256, (4, 8, 6, channels), np.uint8)
    labels = np.array([0, 0, 1, 1])
    write_grid(images, labels, tmp_path / "grid.png")
    picture = Image.open(tmp_path / "grid.png")
    assert picture.mode == mode
    sheet = np.asarray(picture).reshape(picture.height, picture.width, channels)
    assert np.array_equal(sheet, tile(images, labels, 10))
    assert [path.name for path in tmp_path.iterdir()] == ["grid.png"]


def test_a_png_is_lossless(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 1), np.uint8)
    (tmp_path / "one.png").write_bytes(png(image))
    assert np.array_equal(np.asarray(Image.open(tmp_path / "one.png")), image[:, :, 0])
