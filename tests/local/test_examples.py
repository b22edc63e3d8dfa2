"""Batches and augmentation against loops over single samples."""

import numpy as np
import pytest
import torch

from fedeas_app.local.examples import Examples, crop_and_flip, normalise


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def stored(count, height=8, width=6, channels=3, seed=0):
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (count, height, width, channels), dtype=np.uint8)
    return images, np.arange(count, dtype=np.int64)  # every label names its image


def test_planes_come_first_and_the_stored_arrays_are_only_read():
    images, labels = stored(3)
    for array in (images, labels):
        array.setflags(write=False)
    examples = Examples.from_arrays(images, labels)
    assert len(examples) == 3
    assert examples.images.dtype == torch.uint8
    assert examples.labels.dtype == torch.int64
    for n, y, x, channel in np.ndindex(images.shape):
        assert examples.images[n, channel, y, x] == images[n, y, x, channel]
    before = images.copy()
    examples.images.zero_()
    examples.labels.zero_()
    assert np.array_equal(images, before)
    assert labels.tolist() == [0, 1, 2]


def test_pixels_are_scaled_to_minus_two_to_two():
    scaled = normalise(torch.tensor([0, 51, 255], dtype=torch.uint8))
    assert scaled.dtype == torch.float32
    assert scaled.tolist() == pytest.approx([-2.0, -1.2, 2.0])


@pytest.mark.parametrize("size", [1, 4, 11, 100])
def test_a_pass_shows_each_example_once_with_its_own_label(size):
    images, labels = stored(11)
    examples = Examples.from_arrays(images, labels)
    batches = list(examples.batches(size, rng(), augment=False))
    sizes = [len(labels) for _, labels in batches]
    assert sizes == [size] * (11 // size) + [11 % size] * (11 % size > 0)
    shown = torch.cat([labels for _, labels in batches]).tolist()
    assert sorted(shown) == list(range(11))
    for batch, names in batches:
        for pixels, name in zip(batch, names, strict=True):
            expected = images[int(name)].transpose(2, 0, 1).astype(np.float64) / 63.75 - 2
            assert np.allclose(pixels.numpy(), expected, atol=1e-6)


def test_the_order_is_decided_by_the_generator():
    examples = Examples.from_arrays(*stored(40))

    def order(generator):
        return torch.cat([y for _, y in examples.batches(8, generator, augment=True)]).tolist()

    assert order(rng(1)) == order(rng(1))
    assert order(rng(1)) != order(rng(2))
    same = rng(1)
    assert order(same) != order(same)  # the next epoch is shuffled anew


@pytest.mark.parametrize("size", [4, 11, 100])
def test_a_pass_in_order_is_neither_shuffled_nor_augmented(size):
    images, labels = stored(11)
    batches = list(Examples.from_arrays(images, labels).in_order(size))
    assert torch.cat([y for _, y in batches]).tolist() == list(range(11))
    pixels = torch.cat([x for x, _ in batches]).numpy().transpose(0, 2, 3, 1)
    assert np.allclose(pixels, images / 63.75 - 2, atol=1e-6)
    assert all(len(y) <= size for _, y in batches)


def test_augmented_pixels_are_decided_by_the_generator_and_the_images_stay():
    examples = Examples.from_arrays(*stored(20))
    before = examples.images.clone()
    first, again, other = (
        torch.cat([x for x, _ in examples.batches(8, rng(s), augment=True)]) for s in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(examples.images, before)


@pytest.mark.parametrize("shape", [(8, 8, 1), (32, 32, 3), (5, 9, 2), (17, 12, 3)])
def test_crop_and_flip_equals_a_loop_over_images(shape):
    height, width, channels = shape
    images = Examples.from_arrays(*stored(30, height, width, channels)).images
    pad = max(1, height // 8)

    draws = rng(3)
    shifts = torch.randint(2 * pad + 1, (2, 30, 1), generator=draws).tolist()
    mirrored = (torch.rand((30, 1), generator=draws) < 0.5).tolist()
    expected = []
    for n in range(30):
        canvas = np.zeros((channels, height + 2 * pad, width + 2 * pad), np.uint8)
        canvas[:, pad : pad + height, pad : pad + width] = images[n].numpy()
        down, right = shifts[0][n][0], shifts[1][n][0]
        crop = canvas[:, down : down + height, right : right + width]
        expected.append(crop[:, :, ::-1] if mirrored[n][0] else crop)

    result = crop_and_flip(images, rng(3))
    assert result.dtype == torch.uint8
    assert np.array_equal(result.numpy(), np.stack(expected))


def test_every_shift_of_an_eighth_and_both_sides_occur():
    # One white pixel in the middle of 32x32 shows where the image went; pad 4 as in FedOUI.
    images = torch.zeros((2000, 1, 32, 32), dtype=torch.uint8)
    images[:, :, 10, 10] = 255
    found = crop_and_flip(images, rng()).nonzero()
    assert len(found) == 2000
    assert set(found[:, 2].tolist()) == set(range(6, 15))
    # Mirrored, column 10 becomes 21.
    assert set(found[:, 3].tolist()) == set(range(6, 15)) | set(range(17, 26))
    assert 900 < int((found[:, 3] < 16).sum()) < 1100
