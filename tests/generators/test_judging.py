"""What is made of a generator's images."""

import numpy as np
import pytest
import torch

from fedeas_app.data import load_split
from fedeas_app.generators import open_generator
from fedeas_app.generators.grid import draw
from fedeas_app.generators.judging import (
    frechet_distance,
    gaussian_distance,
    judge,
    look,
    nearest_distances,
    recognised,
    recognised_by_class,
    train_reference,
)
from fedeas_app.settings import Settings


def test_the_distance_of_known_gaussians():
    mean, far = np.zeros(2), np.array([3.0, 4.0])
    narrow, wide = np.diag([1.0, 4.0]), np.diag([9.0, 16.0])
    # Means: 25. Deviations 1 and 3, 2 and 4: (1 - 3)² + (2 - 4)².
    assert gaussian_distance(mean, narrow, far, wide) == pytest.approx(25 + 4 + 4)
    assert gaussian_distance(far, wide, mean, narrow) == pytest.approx(33)
    assert gaussian_distance(mean, wide, mean, wide) == pytest.approx(0, abs=1e-12)


def test_the_distance_of_gaussians_that_do_not_commute():
    first = np.array([[2.0, 1.0], [1.0, 2.0]])
    second = np.diag([1.0, 4.0])
    # tr (Σ₁Σ₂)^½ of a 2x2 matrix M is (tr M + 2 det^½ M)^½: tr M = 2 + 8, det M = 3 * 4.
    expected = 4 + 5 - 2 * np.sqrt(10 + 2 * np.sqrt(12))
    assert gaussian_distance(np.zeros(2), first, np.zeros(2), second) == pytest.approx(expected)


def test_singular_covariances_have_a_distance():
    line, point = np.diag([4.0, 0.0]), np.zeros((2, 2))
    assert gaussian_distance(np.zeros(2), line, np.zeros(2), point) == pytest.approx(4)


def test_the_distance_of_samples():
    first = np.array([[-1.0, 0.0], [1.0, 0.0]])  # variances 2 and 0
    assert frechet_distance(first, first + np.array([0, 3])) == pytest.approx(9)
    assert frechet_distance(first, 2 * first) == pytest.approx(2)  # deviations √2 and 2√2
    assert frechet_distance(first, first) == pytest.approx(0, abs=1e-12)
    assert frechet_distance(first, np.zeros((1, 2))) == pytest.approx(2)


@pytest.mark.parametrize("block", [1, 3, 100])
def test_nearest_distances_are_those_of_brute_force(block):
    rng = np.random.default_rng(0)
    images, others = (rng.integers(0, 256, (n, 4, 3, 3), np.uint8) for n in (7, 11))
    images[2] = others[5]
    pairs = images[:, None] / 255 - others[None] / 255
    expected = np.sqrt((pairs**2).sum(axis=(2, 3, 4))).min(axis=1)
    found = nearest_distances(images, others, block)
    assert found == pytest.approx(expected)
    assert found[2] == 0


def test_black_and_white_are_as_far_apart_as_can_be():
    black, white = np.zeros((1, 2, 2, 1), np.uint8), np.full((1, 2, 2, 1), 255, np.uint8)
    assert nearest_distances(black, white).tolist() == [2.0]


def test_the_recognised_share():
    labels = np.array([0, 0, 0, 0, 2, 2])
    predicted = np.array([0, 0, 0, 2, 2, 0])
    assert recognised(labels, predicted) == pytest.approx(4 / 6)
    shares = recognised_by_class(labels, predicted, 3)
    assert shares[[0, 2]].tolist() == [0.75, 0.5]
    assert np.isnan(shares[1])


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Both parts of the digits and settings, with everything that judging needs."""
    cache = str(tmp_path_factory.mktemp("judging"))
    settings = Settings.parse({"device": "cpu", "cache-dir": cache})
    return load_split(settings, "train"), load_split(settings, "test"), settings


def test_the_reference_knows_the_digits(digits):
    train, test, settings = digits
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    model = train_reference(train, settings)
    assert torch.equal(torch.random.get_rng_state(), before)
    classes, features = look(model, test.images)
    assert recognised(test.labels, classes) >= 0.97
    assert features.shape == (360, 128)
    assert features.min() == 0


def test_the_shipped_generator_makes_digits(digits):
    """Takes 10 s: 200 images are made, and a network is trained."""
    train, test, settings = digits
    verdict = judge(*draw(open_generator(settings), 20, 0), train, test, settings)
    assert verdict.images == verdict.frechet_images == 200
    assert verdict.accuracy >= 0.97
    assert verdict.recognised >= 0.95
    assert min(verdict.recognised_by_class.values()) >= 0.8
    assert 0 < verdict.frechet_train < 2 * verdict.frechet_real
    assert verdict.nearest_synthetic > verdict.nearest_test / 2


def test_a_thief_and_a_liar_are_caught(digits):
    """Training images handed out as new ones, with every label off by one."""
    train, test, settings = digits
    stolen = slice(None, None, 7)  # from all over: the digits lie in order of their writers
    verdict = judge(train.images[stolen], (train.labels[stolen] + 1) % 10, train, test, settings)
    assert verdict.nearest_synthetic == 0 < verdict.nearest_test
    assert verdict.recognised < 0.05
    # Good pictures all the same: the Fréchet distance does not look at labels.
    assert verdict.frechet_train < verdict.frechet_real


def test_a_verdict_is_repeatable_and_becomes_a_report(make_split, configure):
    train, test = make_split(), make_split(9)
    settings = configure()
    images = np.random.default_rng(3).integers(0, 256, (6, 8, 8, 1), np.uint8)
    labels = np.array([0, 0, 1, 1, 2, 2])
    first, again = (judge(images, labels, train, test, settings) for _ in range(2))
    assert first == again
    report = first.to_dict()
    assert report["images"] == 6
    assert list(report["recognised-by-class"]) == ["class 0", "class 1", "class 2"]
    assert report["frechet-distance"]["synthetic-test"] == first.frechet_test
    assert report["nearest-training-image"] == {"synthetic": first.nearest_synthetic, "test": 0.0}
