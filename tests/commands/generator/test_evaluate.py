"""``fedeas generator evaluate`` as a user sees it."""

import json
from importlib import import_module

import pytest
from PIL import Image

from fedeas_app.generators.judging import Verdict

# The package holds the command under the name of its module.
module = import_module("fedeas_app.commands.generator.evaluate")


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


@pytest.mark.parametrize(
    ("recognised", "accuracy", "words"),
    [
        (0.49, 0.50, "only 49.0% of the synthetic images"),
        (0.76, 0.90, "76.0% of the synthetic images are recognised as their label (90.0% of"),
        (0.77, 0.90, ""),  # 0.85 of 0.9 is 0.765
        (0.52, 0.60, ""),
        (0.99, 0.90, ""),
    ],
)
def test_the_warning_is_relative_to_real_images(capsys, recognised, accuracy, words):
    module._warn(Verdict(10, accuracy, recognised, {}, 10, 0.0, 0.0, 0.0, 0.0, 0.0))
    heard = capsys.readouterr().err
    assert heard.startswith(f"Warning: {words}") if words else heard == ""
