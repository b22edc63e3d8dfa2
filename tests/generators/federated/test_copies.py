"""Images that copy training images, told apart from images that are merely like them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fedeas_app.client import Client
from fedeas_app.data import load_split
from fedeas_app.generators.federated import copies as module
from fedeas_app.generators.federated.copies import copies_among, count_copies
from fedeas_app.generators.judging import nearest_others


def line(*values):
    """Images of one pixel on a line."""
    return np.array(values, np.uint8).reshape(-1, 1, 1, 1)


def test_an_image_nearer_than_half_the_usual_distance_is_a_copy():
    own = line(0, 20, 40, 60)  # 20 apart
    assert copies_among(line(0, 9, 29, 10, 30, 255), own) == 3


def test_twins_among_the_own_images_do_not_hide_a_copy():
    assert copies_among(line(41, 70), line(0, 0, 20, 40, 60)) == 1


def test_of_many_own_images_some_are_asked_and_all_are_looked_through(monkeypatch):
    monkeypatch.setattr(module, "_MEASURED", 3)
    own = line(*range(0, 250, 10))  # 10 apart; the three that are asked are 120 apart
    assert copies_among(line(5, 15, 94, 133, 255), own) == 2


def test_where_most_own_images_are_there_twice_nothing_can_be_told():
    assert copies_among(line(0, 20), line(0, 0, 20, 20)) == 0


@given(st.integers(2, 12), st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**32 - 1))
@hypothesis_settings(deadline=None)
def test_the_nearest_other_is_what_a_loop_finds(count, asked, block, seed):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, 2, 2, 1), dtype=np.uint8)
    places = np.sort(rng.choice(count, min(asked, count), replace=False))
    flat = images.reshape(count, -1).astype(float)
    wanted = [
        min(np.linalg.norm(flat[i] - flat[j]) for j in range(count) if j != i) / 255 for i in places
    ]
    assert nearest_others(images, places, block) == pytest.approx(wanted)


def test_real_images_that_nobody_trained_on_are_no_copies(cache_dir, configure):
    settings = configure(train_samples=0, test_samples=0)
    train, test = (load_split(settings, name).images for name in ("train", "test"))
    assert copies_among(test, train) <= 0.02 * len(test)
    assert copies_among(train[:50], train) == 50


class Parrot:
    """Draws images that are there already."""

    def __init__(self, images):
        self.images = images
        self.asked = None

    def generate(self, labels, seeds):
        self.asked = labels, seeds
        return self.images[: len(labels)]


def test_a_client_looks_at_classes_that_it_has(job, monkeypatch):
    client = Client(job(generator_checked=20), 1, 3)
    parrot = Parrot(client.dataset.images[client.indices][:20])
    monkeypatch.setattr(module, "open_generator", lambda settings: parrot)
    assert count_copies(client) == (20, 20)
    labels, seeds = parrot.asked
    assert set(labels) <= set(client.labels)
    shares = np.bincount(labels, minlength=10) / 20 - client.counts[0] / client.counts.sum()
    assert np.abs(shares).max() <= 1 / 20
    assert len(set(seeds)) == 20


def test_nothing_is_looked_at_where_it_is_switched_off_or_cannot_be_told(job, monkeypatch):
    client = Client(job(generator_checked=0), 0, 3)
    assert count_copies(client) == (0, 0)
    client = Client(job(), 0, 3)
    monkeypatch.setattr(client, "indices", client.indices[:1])
    assert count_copies(client) == (0, 0)
