"""Tiny networks in double precision, and softmax regression written out in NumPy."""

import numpy as np
import torch
from torch import nn

from fedeas_app.local import Examples, Job

PIXELS, UNITS, CLASSES, COUNT = 12, 16, 3, 23


class Linear(nn.Module):
    """Softmax regression, with a buffer that no algorithm may touch."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(PIXELS, CLASSES, bias=False, dtype=torch.float64)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        with torch.no_grad():
            start = np.random.default_rng(3).normal(size=(CLASSES, PIXELS)) / 4
            self.layer.weight.copy_(torch.from_numpy(start))

    def forward(self, images):
        return self.layer(images.flatten(1).double())

    @property
    def w(self):
        return self.layer.weight.detach().numpy().copy()


class Hidden(nn.Module):
    """One hidden layer, with the members of a classifier that local algorithms use."""

    def __init__(self, seed=5):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.first = nn.Linear(PIXELS, UNITS, bias=False, dtype=torch.float64)
        self.last = nn.Linear(UNITS, CLASSES, bias=False, dtype=torch.float64)
        with torch.no_grad():
            for layer in (self.first, self.last):
                layer.weight.copy_(torch.from_numpy(rng.normal(size=layer.weight.shape)))

    def preactivations(self, images):
        return self.first(images.flatten(1).double())

    def representation(self, hidden):
        return hidden

    def head(self, hidden):
        return self.last(hidden)

    def forward(self, images):
        return self.head(torch.relu(self.preactivations(images)))


def data(seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (COUNT, 2, 2, 3), dtype=np.uint8)
    return images, rng.integers(0, CLASSES, COUNT)


def job(model, settings, seed=7, **more):
    rng = torch.Generator().manual_seed(seed)
    return Job(model, Examples.from_arrays(*data()), settings, rng, **more)


def pixels():
    return (data()[0].transpose(0, 3, 1, 2).reshape(COUNT, -1) / 63.75 - 2).astype(np.float64)


def softmax(logits):
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def gradient(w, rows):
    """The gradient of the mean cross-entropy of softmax regression over some examples."""
    x, labels = pixels()[rows], data()[1][rows]
    return (softmax(x @ w.T) - np.eye(CLASSES)[labels]).T @ x / len(rows)


def batches(settings, seed=7):
    """The rows of each batch, as the generator orders them."""
    order = torch.Generator().manual_seed(seed)
    for _ in range(settings.local_epochs):
        rows = torch.randperm(COUNT, generator=order).numpy()
        for start in range(0, COUNT, settings.batch_size):
            yield rows[start : start + settings.batch_size]


def descend(w, settings, change, seed=7):
    """v ← mv + (g + λw + what the algorithm adds at w);  w ← w − ηv."""
    w, v = w.copy(), np.zeros_like(w)
    for rows in batches(settings, seed):
        g = gradient(w, rows) + settings.weight_decay * w + change(w)
        v = settings.momentum * v + g
        w = w - settings.learning_rate * v
    return w
