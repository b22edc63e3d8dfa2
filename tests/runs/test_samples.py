"""The sheet of what clients generated: from their caches, and never more than is there."""

import numpy as np
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from fedeas_app import seeds
from fedeas_app.client import Client, Order
from fedeas_app.files import write_text
from fedeas_app.runs.reading import ClassCounts, write_counts
from fedeas_app.runs.samples import SAMPLES, _shrunk, choose, keep_samples

NAMES = tuple("0123456789")
SIDE = 64 + 2  # an 8-pixel digit enlarged eight times, and the gap


@pytest.fixture
def finished(configure, fake_generator, tmp_path):
    """A finished run of four clients, whose images are in the cache."""
    settings = configure(policy="fedeas", beta=12.0)
    clients = [Client(settings, k, 4) for k in range(4)]
    for client in clients:
        client.synthesise(Order(beta=12.0))
    fake_generator.error = AssertionError("nothing may be generated now")
    counts = ClassCounts(
        NAMES,
        np.concatenate([client.counts for client in clients]),
        np.stack([client.need(Order(beta=12.0)) for client in clients]),
    )
    directory = tmp_path / "run"
    directory.mkdir()
    (directory / "config.toml").write_text(tomli_w.dumps({"policy": "fedeas"}))
    write_text(directory / "summary.json", "{}")
    write_counts(directory, counts)
    return settings, directory, counts


def sheet(directory):
    with Image.open(directory / SAMPLES) as image:
        return np.asarray(image)


def expected_sheet(counts, settings, generator, columns=8):
    """Put the sheet together image by image, each at a place of its own."""
    paper = np.full((len(NAMES) * SIDE + 2, columns * SIDE + 2), 128, np.uint8)
    for label in range(len(NAMES)):
        turn = [(n, k) for n in range(100) for k in range(4) if counts.synthetic[k, label] > n]
        for column, (number, client) in enumerate(turn[:columns]):
            client_seed = seeds.derive("client", settings.seed, client)
            seed = seeds.derive("image", client_seed, label, number)
            image = generator.image(label, seed)[:, :, 0].repeat(8, axis=0).repeat(8, axis=1)
            top, left = 2 + label * SIDE, 2 + column * SIDE
            paper[top : top + 64, left : left + 64] = image
    return paper


def test_a_row_a_class_from_every_client_in_turn(finished, fake_generator):
    settings, directory, counts = finished
    keep_samples(settings, directory)
    expected = expected_sheet(counts, settings, fake_generator)
    np.testing.assert_array_equal(sheet(directory), expected)


def test_the_same_run_gives_the_same_bytes(finished):
    settings, directory, _ = finished
    keep_samples(settings, directory)
    first = (directory / SAMPLES).read_bytes()
    keep_samples(settings, directory)
    assert (directory / SAMPLES).read_bytes() == first


def test_what_the_cache_holds_beyond_the_run_is_not_shown(finished, fake_generator):
    settings, directory, counts = finished
    fewer = np.minimum(counts.synthetic, 1)
    write_counts(directory, ClassCounts(NAMES, counts.real, fewer))
    keep_samples(settings, directory)
    # No class has more than four images, one a client: the sheet is as wide as the fullest row.
    columns = int(fewer.sum(axis=0).max())
    expected = expected_sheet(ClassCounts(NAMES, counts.real, fewer), settings, fake_generator)
    np.testing.assert_array_equal(sheet(directory), expected[:, : columns * SIDE + 2])


def test_an_empty_class_keeps_its_row(finished):
    settings, directory, counts = finished
    synthetic = counts.synthetic.copy()
    synthetic[:, 3] = 0
    write_counts(directory, ClassCounts(NAMES, counts.real, synthetic))
    keep_samples(settings, directory)
    rows = sheet(directory)[: 10 * SIDE].reshape(10, SIDE, -1)
    assert [bool((row == 128).all()) for row in rows] == [label == 3 for label in range(10)]


def test_what_the_cache_has_lost_is_left_out_and_never_made(finished):
    settings, directory, _ = finished
    for client in range(4):
        drawer = Client(settings, client, 4).drawer
        for path in drawer.directory.glob("*.safetensors"):
            path.unlink()
    keep_samples(settings, directory)
    assert not (directory / SAMPLES).exists()


def test_without_synthesis_there_is_no_sheet(finished, configure):
    _, directory, counts = finished
    keep_samples(configure(policy="none"), directory)
    nothing = np.zeros_like(counts.synthetic)
    write_counts(directory, ClassCounts(NAMES, counts.real, nothing))
    keep_samples(configure(policy="fedeas"), directory)
    assert not (directory / SAMPLES).exists()


def test_without_counts_there_is_no_sheet(finished):
    settings, directory, _ = finished
    (directory / "counts.json").unlink()
    keep_samples(settings, directory)
    assert not (directory / SAMPLES).exists()


def test_a_finished_run_never_fails_for_it(finished, monkeypatch):
    settings, directory, _ = finished
    (directory / "counts.json").write_text("{")
    keep_samples(settings, directory)
    keep_samples(settings, directory / "absent")

    def fail(settings):
        raise MemoryError

    monkeypatch.setattr("fedeas_app.client.open_generator", fail)
    keep_samples(settings, directory)


@given(
    arrays(np.int64, st.tuples(st.integers(1, 5), st.integers(1, 130)), elements=st.integers(0, 9))
)
def test_choices_exist_are_fair_and_not_too_many(synthetic):
    chosen = choose(synthetic)
    assert len(set(chosen)) == len(chosen) <= 240
    for client, label, number in chosen:
        assert number < synthetic[client, label]
        assert label < 100
    for label in range(min(100, synthetic.shape[1])):
        numbers = [choice.number for choice in chosen if choice.label == label]
        assert numbers == sorted(numbers)
        most = min(8, 240 // min(100, synthetic.shape[1]))
        assert len(numbers) == min(most, int(np.minimum(synthetic[:, label], 8).sum()))


@pytest.mark.parametrize(
    ("shape", "small"),
    [((64, 64, 3), (64, 64, 3)), ((256, 128, 3), (64, 32, 3)), ((100, 100, 1), (64, 64, 1))],
)
def test_large_images_are_made_smaller(shape, small):
    assert _shrunk(np.full(shape, 200, np.uint8)).shape == small
    assert (_shrunk(np.full(shape, 200, np.uint8)) == 200).all()
