"""Batch sizes: found by a trial, halved until they fit, the same for every request."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedeas_app.errors import UserError
from fedeas_app.generators.batches import (
    ON_CPU,
    _found,
    find_size,
    in_batches,
    power_of_two_below,
    rows_of,
)

CPU, GPU = torch.device("cpu"), torch.device("cuda")


class Device:
    """Holds so many images, remembers the sizes of what it was asked for and what it made."""

    def __init__(self, kind, count, fits):
        self.kind, self.count, self.fits = kind, count, fits
        self.tried, self.made = [], []

    def make(self, batch, size):
        rows = rows_of(batch, size, self.count, self.kind)
        self.tried.append(len(rows))
        if len(rows) > self.fits:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.made.append(len(rows))
        return torch.from_numpy(rows[: batch.stop - batch.start])

    def run(self, size):
        return list(in_batches(self.make, self.count, size, "'mine'"))


@given(st.sampled_from([CPU, GPU]), st.integers(1, 40), st.integers(1, 64), st.integers(1, 64))
def test_every_image_is_made_once_and_in_order(kind, count, size, fits):
    device = Device(kind, count, fits)
    batches = device.run(size)
    assert torch.cat([images for _, images in batches]).tolist() == list(range(count))
    for batch, images in batches:
        assert images.tolist() == list(range(batch.start, batch.stop))


@given(st.integers(1, 40), st.integers(1, 64), st.integers(1, 64))
def test_a_gpus_batches_are_all_of_one_size_once_they_fit(count, size, fits):
    device = Device(GPU, count, fits)
    device.run(size)
    expected = size
    while expected > fits:
        expected //= 2
    # Whatever the number of images: none depends on how many others were asked for.
    assert set(device.made) == {expected}


def test_a_cpus_last_batch_is_not_filled_up():
    device = Device(CPU, 11, fits=100)
    device.run(4)
    assert device.made == [4, 4, 3]


def test_batches_are_halved_until_they_fit_and_stay_so():
    device = Device(GPU, 11, fits=3)
    batches = [batch for batch, _ in device.run(8)]
    assert device.tried == [8, 4, 2, 2, 2, 2, 2, 2]
    assert batches[-1] == slice(10, 11)


def test_a_last_batch_that_no_longer_fits_is_halved_as_the_others_would_be():
    device = Device(GPU, 9, fits=8)
    make = in_batches(device.make, 9, 8, "'mine'")
    next(make)
    device.fits = 5  # another client has taken memory
    assert [images.tolist() for _, images in make] == [[8]]
    assert device.tried == [8, 8, 4]


def test_no_images_no_batch():
    assert Device(GPU, 0, fits=1).run(8) == []


@pytest.mark.parametrize("kind", [CPU, GPU])
def test_a_device_too_small_for_one_image_is_a_sentence(kind):
    with pytest.raises(UserError, match=r"'mine' does not fit .* one image at a time"):
        Device(kind, 3, fits=0).run(8)


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    def fail(batch, size):
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        list(in_batches(fail, 3, 2, "'mine'"))


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 9), st.integers(0, 9))
def test_rows_beyond_the_last_repeat_it(start, length, room, more):
    stop = start + length
    count = stop + more
    rows = rows_of(slice(start, stop), length + room, count, GPU)
    assert len(rows) == length + room
    assert rows.tolist() == [min(row, count - 1) for row in range(start, start + length + room)]
    assert np.array_equal(rows_of(slice(start, stop), length + room, count, CPU), rows[:length])


# --- finding a size ---


@pytest.fixture(autouse=True)
def _nothing_found_yet():
    _found.clear()
    yield
    _found.clear()


def fake_gpu(monkeypatch, total, network, an_image, overhead=0):
    """A GPU on which a forward pass takes so many bytes; returns that pass and its counts."""
    counts = []
    peak = [0]
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(
        torch.cuda, "reset_peak_memory_stats", lambda device: peak.__setitem__(0, network)
    )
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: peak[0])
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=total)
    )

    def forward(count):
        counts.append(count)
        peak[0] = network + overhead + an_image * count
        if peak[0] > total:
            raise torch.OutOfMemoryError("CUDA out of memory")

    return forward, counts


@pytest.mark.parametrize(
    ("total", "an_image", "expected"),
    [
        (24_000, 100, 64),  # half is room for 120
        (25_600, 100, 128),  # half is room for 128
        (25_599, 100, 64),
        (10**9, 1, 256),  # more is of no use
        (10**9, 0, 256),
        (3_200, 100, 16),  # half is room for 16
        (2_000, 100, 16),  # half is room for 10, but the rest may be there as well
    ],
)
def test_half_of_the_memory_is_taken(monkeypatch, total, an_image, expected):
    forward, counts = fake_gpu(monkeypatch, total, 77, an_image, overhead=11)
    assert find_size(GPU, forward, "digest") == expected
    assert max(counts) <= 16


def test_a_trial_that_does_not_fit_begins_small(monkeypatch):
    forward, _ = fake_gpu(monkeypatch, 1_000, 77, 100)
    assert find_size(GPU, forward, "digest") == 8


def test_a_cpu_needs_no_trial():
    assert find_size(CPU, pytest.fail, "digest") == ON_CPU


def test_a_size_is_found_once_for_a_generator_and_a_device(monkeypatch):
    forward, counts = fake_gpu(monkeypatch, 24_000, 77, 100)
    assert find_size(GPU, forward, "one") == 64
    tried = len(counts)
    assert find_size(GPU, forward, "one") == 64
    assert len(counts) == tried
    find_size(GPU, forward, "other")
    find_size(torch.device("cuda:1"), forward, "one")
    assert len(counts) == 3 * tried


def test_a_lack_of_memory_is_not_remembered(monkeypatch):
    short, _ = fake_gpu(monkeypatch, 1_000, 77, 100)
    assert find_size(GPU, short, "one") == 8
    forward, _ = fake_gpu(monkeypatch, 24_000, 77, 100)
    assert find_size(GPU, forward, "one") == 64


@given(st.floats(0, 1e9))
def test_a_power_of_two_below(images):
    size = power_of_two_below(images)
    assert size.bit_count() == 1
    assert 16 <= size <= 256
    assert size <= images or size == 16
    assert 2 * size > images or size == 256
