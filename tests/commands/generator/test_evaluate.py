"""``fedeas generator evaluate`` as a user sees it."""

import json

from PIL import Image


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
