"""The pool draws real images of the right class."""

import numpy as np
import pytest

from fedeas_app.data import load_split
from fedeas_app.errors import UserError
from fedeas_app.generators import open_generator, require_fit


def test_every_image_is_a_real_one_of_its_class(configure):
    settings = configure(generator="pool", pool_dataset="digits")
    pool = open_generator(settings)
    real = load_split(configure(train_samples=0), "train")
    require_fit(pool, real.class_names, (8, 8, 1))
    labels = np.repeat(np.arange(10), 3)
    images = pool.generate(labels, np.arange(30))
    assert images.shape == (30, 8, 8, 1)
    for label, image in zip(labels, images, strict=True):
        same = (real.images[real.labels == label] == image).all(axis=(1, 2, 3))
        assert same.any()


def test_an_image_depends_on_its_label_and_seed_alone(configure):
    pool = open_generator(configure(generator="pool", pool_dataset="digits"))
    together = pool.generate(np.array([3, 4, 3]), np.array([7, 8, 9]))
    alone = pool.generate(np.array([3]), np.array([9]))
    assert np.array_equal(together[2], alone[0])


def test_batches_are_reported(configure):
    pool = open_generator(configure(generator="pool", pool_dataset="digits"))
    seen = []
    pool.generate(np.array([1, 2]), np.array([5, 6]), lambda rows, images: seen.append(len(images)))
    pool.generate(np.array([], np.int64), np.array([], np.int64), lambda *_: seen.append(-1))
    assert seen == [2]


def test_the_digest_is_of_the_whole_pool(configure):
    one = open_generator(configure(generator="pool", pool_dataset="digits", train_samples=100))
    other = open_generator(configure(generator="pool", pool_dataset="digits", train_samples=50))
    assert one.digest == other.digest  # a client's subset does not make the pool smaller


def test_a_pool_must_be_named(configure):
    with pytest.raises(UserError, match="pool-dataset is empty"):
        open_generator(configure(generator="pool"))
