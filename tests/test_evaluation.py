"""The server's evaluation against a computation of its own."""

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord

from fedeas_app.data import Split
from fedeas_app.evaluation import Evaluator, area_under_curve
from fedeas_app.models import make_model


def random_split(count, shape, classes=10, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, *shape), dtype=np.uint8)
    return Split(images, rng.integers(0, classes, count), tuple(map(str, range(classes))), "")


def by_hand(model, split):
    """Log-softmax and arg-max in float64, over all images at once."""
    pixels = torch.from_numpy(split.images.transpose(0, 3, 1, 2).astype(np.float32))
    with torch.no_grad():
        logits = model.eval()(pixels / 63.75 - 2).double().numpy()
    logits -= logits.max(axis=1, keepdims=True)
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    rows = np.arange(len(split.labels))
    return {
        "accuracy": float((chances.argmax(axis=1) == split.labels).mean()),
        "loss": float(-np.log(chances[rows, split.labels]).mean()),
    }


@pytest.mark.parametrize("count", [1, 64, 700])  # one batch holds 64
def test_accuracy_and_loss_are_those_of_the_arrays_given(configure, count):
    split = random_split(count, (8, 8, 1))
    first = make_model(configure(seed=1), (8, 8, 1), 10)
    other = make_model(configure(seed=2), (8, 8, 1), 10)
    evaluate = Evaluator(first, split, configure())
    result = evaluate(ArrayRecord(other.state_dict()))
    expected = by_hand(other, split)
    assert result["accuracy"] == expected["accuracy"]
    assert result["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    assert set(result) == {"accuracy", "loss"}


@pytest.mark.parametrize("count", [0, 63, 700])
def test_any_number_of_cores_gives_the_same_bits(configure, count):
    split = random_split(count, (8, 8, 1))
    arrays = ArrayRecord(make_model(configure(seed=2), (8, 8, 1), 10).state_dict())
    results = [
        Evaluator(make_model(configure(), (8, 8, 1), 10), split, configure(), cores)(arrays)
        for cores in (1, 2, 5)
    ]
    assert results[0] == results[1] == results[2]


def test_running_statistics_are_used_and_not_touched(configure):
    settings = configure(model="resnet18", norm="batch")
    split = random_split(3, (16, 16, 3))
    model = make_model(settings, (16, 16, 3), 10)
    model.train()
    model(torch.rand(2, 3, 16, 16))
    arrays = ArrayRecord(model.state_dict())
    evaluate = Evaluator(make_model(settings, (16, 16, 3), 10).train(), split, settings)
    first, again = evaluate(arrays), evaluate(arrays)
    assert first == again
    assert first["loss"] == pytest.approx(by_hand(model, split)["loss"], rel=1e-5)


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ([0.4], 0.4),
        ([0.2, 0.6], 0.4),
        ([0.1, 0.3, 0.5], 0.3),
        ([0.0, 1.0, 0.0], 0.5),
        ([0.1, 0.5, 0.3, 0.9], (0.3 + 0.4 + 0.6) / 3),
    ],
)
def test_auc_is_the_mean_height_of_the_curve(accuracies, expected):
    assert area_under_curve(accuracies) == pytest.approx(expected)
