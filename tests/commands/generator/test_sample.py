"""``fedeas generator sample`` as a user sees it."""

import numpy as np
import pytest
from PIL import Image

from fedeas_app import seeds
from fedeas_app.commands.generator.sample import file_names


def test_images_lie_in_directories_of_their_classes(command, fake, tmp_path):
    target = tmp_path / "new" / "images"
    result = command("sample", "--out", target, "--per-class", 2, "--seed", 4)
    assert result.exit_code == 0, result.stderr
    assert "20 images in" in result.stdout
    assert "images per second" in result.stdout
    assert sorted(path.name for path in target.iterdir()) == [*"0123456789", "grid.png"]
    assert sorted(path.name for path in (target / "3").iterdir()) == ["0.png", "1.png"]
    pixels = np.asarray(Image.open(target / "3" / "1.png"))
    assert np.array_equal(pixels, fake.image(3, seeds.derive("sample", 4, 3, 1))[:, :, 0])


def test_a_class_may_have_any_name(command, fake, tmp_path):
    fake.class_names = ("..", "/etc/x", "a/../../b", "", "grid.png", "A", "a", "ß", "x" * 500, "\0")
    target = tmp_path / "images"
    assert command("sample", "--out", target, "--per-class", 1).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["images"]
    assert len(list(target.glob("*/0.png"))) == 10
    assert (target / "grid.png").is_file()


def test_a_generator_without_names_has_numbers(command, fake, tmp_path):
    fake.class_names = None
    assert command("sample", "--out", tmp_path / "images", "--per-class", 1).exit_code == 0
    assert (tmp_path / "images" / "9" / "0.png").is_file()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("cat", "great dane", "Ähre"), ["cat", "great dane", "Ähre"]),
        (("a/b", "a\\b"), ["0-a_b", "1-a_b"]),
        (("..", "b"), ["0-", "1-b"]),
        (("...hidden. ", "b"), ["hidden", "b"]),
        (("Cat", "cat"), ["0-Cat", "1-cat"]),
        (("GRID.png", "1"), ["0-GRID.png", "1-1"]),
    ],
)
def test_file_names(names, expected):
    assert file_names(names) == expected
