"""Local SGD against its update equations written out in NumPy."""

import numpy as np
import pytest
import torch
from torch import nn

from fedeas_app.local import Examples, train_sgd

PIXELS, CLASSES, COUNT = 12, 3, 23


class Linear(nn.Module):
    """Double precision, so that the reference can be compared closely."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(PIXELS, CLASSES, bias=False, dtype=torch.float64)
        nn.init.zeros_(self.layer.weight)

    def forward(self, images):
        return self.layer(images.flatten(1).double())


class Spy(Linear):
    def __init__(self):
        super().__init__()
        self.seen, self.modes = [], []

    def forward(self, images):
        self.seen.append(images)
        self.modes.append(self.training)
        return super().forward(images)


def data(seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (COUNT, 2, 2, 3), dtype=np.uint8)
    return images, rng.integers(0, CLASSES, COUNT)


def softmax(logits):
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def reference(w, images, labels, settings, seed):
    """v ← μv + (∇L + λw); w ← w − ηv, over the batches that the generator orders."""
    x = (images.transpose(0, 3, 1, 2).reshape(COUNT, -1) / 63.75 - 2).astype(np.float64)
    order = torch.Generator().manual_seed(seed)
    w, v, losses = w.copy(), np.zeros_like(w), []
    for _ in range(settings.local_epochs):
        rows = torch.randperm(COUNT, generator=order).numpy()
        for start in range(0, COUNT, settings.batch_size):
            chosen = rows[start : start + settings.batch_size]
            p = softmax(x[chosen] @ w.T)
            losses += (-np.log(p[np.arange(len(chosen)), labels[chosen]])).tolist()
            error = p - np.eye(CLASSES)[labels[chosen]]
            gradient = error.T @ x[chosen] / len(chosen) + settings.weight_decay * w
            v = settings.momentum * v + gradient
            w -= settings.learning_rate * v
    return w, float(np.mean(losses))


@pytest.mark.parametrize(
    "keys",
    [
        {"momentum": 0.0, "local_epochs": 1},
        {"momentum": 0.9, "local_epochs": 2},
        {"momentum": 0.5, "local_epochs": 3, "weight_decay": 0.1, "batch_size": 5},
        {"momentum": 0.9, "batch_size": 64},
    ],
)
def test_weights_and_loss_follow_the_update_equations(configure, keys):
    settings = configure(**{"batch_size": 4, "learning_rate": 0.1, **keys})
    images, labels = data()
    model = Linear()
    weight = model.layer.weight.detach().numpy().copy()
    # Twice: momentum must not outlive a round.
    for seed in (7, 8):
        weight, expected = reference(weight, images, labels, settings, seed)
        examples = Examples.from_arrays(images, labels)
        loss = train_sgd(model, examples, settings, torch.Generator().manual_seed(seed))
        assert np.allclose(model.layer.weight.detach().numpy(), weight, atol=1e-6, rtol=0)
        assert loss == pytest.approx(expected, abs=1e-5)


def test_loss_is_the_mean_over_examples_not_over_batches(configure):
    # 23 examples in batches of 11, 11 and 1, and weights that hardly move.
    settings = configure(batch_size=11, learning_rate=1e-12, momentum=0.0)
    images, labels = data()
    model = Linear()
    with torch.no_grad():
        model.layer.weight.copy_(torch.from_numpy(np.random.default_rng(1).normal(size=(3, 12))))
    x = images.transpose(0, 3, 1, 2).reshape(COUNT, -1) / 63.75 - 2
    p = softmax(x @ model.layer.weight.detach().numpy().T)
    expected = -np.log(p[np.arange(COUNT), labels]).mean()
    loss = train_sgd(
        model, Examples.from_arrays(images, labels), settings, torch.Generator().manual_seed(0)
    )
    assert loss == pytest.approx(expected, abs=1e-5)


def test_the_model_is_put_in_training_mode(configure):
    model = Spy().eval()
    train_sgd(model, Examples.from_arrays(*data()), configure(), torch.Generator())
    assert model.modes == [True]


def test_augmentation_happens_only_when_asked_for(configure):
    # Constant images: a shift lets zeros in, nothing else changes them.
    images, labels = np.full((COUNT, 2, 2, 3), 255, np.uint8), data()[1]
    touched = {}
    for augment in (False, True):
        model = Spy()
        generator = torch.Generator().manual_seed(0)
        train_sgd(
            model, Examples.from_arrays(images, labels), configure(augment=augment), generator
        )
        touched[augment] = bool((torch.cat(model.seen) != 2).any())
    assert touched == {False: False, True: True}
