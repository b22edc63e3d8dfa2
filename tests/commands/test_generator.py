"""``fedeas generator sample`` and ``evaluate`` as a user sees them."""

import json

import numpy as np
import pytest
from fake_generator import FakeGenerator
from PIL import Image
from typer.testing import CliRunner

from fedeas_app import seeds
from fedeas_app.commands import app
from fedeas_app.commands.generator import file_names


@pytest.fixture
def fake(monkeypatch):
    """A generator of noise in the place of whatever the settings name."""
    generator = FakeGenerator()
    monkeypatch.setattr("fedeas_app.generators.open_generator", lambda settings: generator)
    return generator


@pytest.fixture
def command(monkeypatch, cache_dir):
    monkeypatch.setenv("COLUMNS", "120")
    own = ["--set", f"cache-dir={cache_dir}", "--set", "device=cpu"]

    def invoke(verb, *arguments):
        return CliRunner().invoke(app, ["generator", verb, *own, *map(str, arguments)])

    return invoke


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


@pytest.mark.parametrize("verb", ["sample", "evaluate"])
def test_what_exists_is_left_alone(command, fake, tmp_path, verb):
    result = command(verb, "--out", tmp_path)
    assert result.exit_code == 1
    assert "exists already" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert fake.asked == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "generator=/nowhere"], "/nowhere"),
        (["--set", "sampler-steps=2000"], "sampler-steps is 2000"),
        (["--set", "sampler=magic"], "sampler is 'magic'"),
    ],
)
def test_a_mistake_is_one_sentence(command, tmp_path, arguments, words):
    for verb in ("sample", "evaluate"):
        result = command(verb, "--out", tmp_path / "out", *arguments)
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: ")
        assert words in result.stderr
        assert result.stderr.count("\n") == 1
        assert list(tmp_path.iterdir()) == []


def test_a_generator_of_other_images_is_refused(command, fake):
    fake.image_shape = (16, 16, 1)
    result = command("evaluate")
    assert result.exit_code == 1
    assert "makes images of 16x16 pixels" in result.stderr
    assert fake.asked == []


def test_noise_is_judged_and_warned_of(command, fake, tmp_path):
    """Takes some seconds: a network is trained."""
    target = tmp_path / "report"
    result = command("evaluate", "--per-class", 5, "--json", "--out", target)
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["images"] == 50
    assert report["classifier-accuracy"] >= 0.97
    assert report["recognised"] < 0.5
    assert report["frechet-distance"]["synthetic-train"] > 5
    assert report["nearest-training-image"]["synthetic"] > report["nearest-training-image"]["test"]
    assert "Warning: only" in result.stderr
    assert json.loads((target / "report.json").read_text()) == report
    assert Image.open(target / "grid.png").height == 10 * 66 + 2


def test_the_shipped_generator_in_a_table(command):
    """Takes some seconds: a network is trained."""
    result = command("evaluate", "--per-class", 2, "--set", "sampler-steps=10")
    assert result.exit_code == 0, result.stderr
    for words in (
        "real test images",
        "Fréchet distance of 20 to the test set",
        "nearest training image",
    ):
        assert words in result.stdout
    assert "Warning" not in result.stderr


def test_help_names_both():
    result = CliRunner().invoke(app, ["generator", "--help"])
    assert "sample" in result.stdout
    assert "evaluate" in result.stdout
