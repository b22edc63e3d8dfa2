"""A generator that costs nothing: noise that depends on the label and the seed alone."""

import numpy as np


class FakeGenerator:
    """Fits the digits, keeps its requests, and can be told to break."""

    name = "'fake'"
    num_classes = 10
    class_names = tuple("0123456789")
    image_shape = (8, 8, 1)

    def __init__(self, digest="fake-digest", batch_size=7):
        self.digest = digest
        self.batch_size = batch_size
        self.asked = []  # one (labels, seeds) a call
        self.error = None

    def generate(self, labels, seeds, on_batch=None):
        if self.error is not None:
            raise self.error
        self.asked.append((labels.copy(), seeds.copy()))
        images = np.stack([self.image(*pair) for pair in zip(labels, seeds, strict=True)])
        for start in range(0, len(labels), self.batch_size):
            batch = slice(start, start + self.batch_size)
            if on_batch is not None:
                on_batch(batch, images[batch])
        return images

    def image(self, label, seed):
        rng = np.random.default_rng([int(label), int(seed)])
        return rng.integers(0, 256, self.image_shape, dtype=np.uint8)
