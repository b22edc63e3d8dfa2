"""IDX files: what they hold, and what a damaged one does."""

import contextlib
import gzip
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedeas_app.data import load_split
from fedeas_app.data.idx import read_idx
from fedeas_app.errors import UserError

FASHION = Path("/usr/share/datasets/fashion-mnist")


def idx(array: np.ndarray) -> bytes:
    """Encode by hand: magic, dimensions, bytes."""
    magic = struct.pack(">BBBB", 0, 0, 8, array.ndim)
    return magic + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes()


def write_folder(root: Path, images: np.ndarray, labels: np.ndarray, parts=("train", "t10k")):
    root.mkdir()
    for part in parts:
        (root / f"{part}-images-idx3-ubyte").write_bytes(idx(images))
        (root / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    return root


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (30, 4, 5)), np.arange(30) % 3


def test_a_folder_of_plain_and_gzipped_files_is_a_dataset(tmp_path, settings_of, arrays):
    images, labels = arrays
    keys = settings_of(write_folder(tmp_path / "idx", images, labels))
    for part in ("train", "test"):
        split = load_split(keys, part)
        assert np.array_equal(split.images[..., 0], images)
        assert np.array_equal(split.labels, labels)
        assert split.class_names == ("0", "1", "2")


def test_without_t10k_a_fifth_is_held_out(tmp_path, settings_of, arrays):
    keys = settings_of(write_folder(tmp_path / "idx", *arrays, parts=("train",)))
    assert len(load_split(keys, "train").labels) == 24
    assert len(load_split(keys, "test").labels) == 6


def test_changed_files_are_decoded_anew(tmp_path, settings_of, arrays):
    images, labels = arrays
    root = write_folder(tmp_path / "idx", images, labels)
    keys = settings_of(root)
    before = load_split(keys, "train").digest
    (root / "train-images-idx3-ubyte").write_bytes(idx(255 - images) + b"")
    (root / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels), 1))
    assert load_split(keys, "train").digest != before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "begins with nothing"),
        (b"\x89PNG\r\n", "not an IDX file"),
        (struct.pack(">BBBB", 0, 0, 13, 1), "not an IDX file"),
        (struct.pack(">BBBBH", 0, 0, 8, 3, 1), "ends within its header"),
        (struct.pack(">BBBBI", 0, 0, 8, 1, 5) + b"1234", "fewer bytes"),
        (struct.pack(">BBBBI", 0, 0, 8, 1, 5) + b"123456", "more bytes"),
        (struct.pack(">BBBBIII", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 9), "claims"),
    ],
)
def test_a_damaged_file_is_told_in_one_sentence(tmp_path, content, words):
    path = tmp_path / "x-idx1-ubyte"
    path.write_bytes(content)
    with pytest.raises(UserError, match=words):
        read_idx(path)


def test_a_damaged_archive_is_told_in_one_sentence(tmp_path):
    path = tmp_path / "x-idx1-ubyte.gz"
    whole = gzip.compress(idx(np.arange(100)))
    for content in (b"no archive", whole[:-20], whole[:12] + b"\xff" * 30):
        path.write_bytes(content)
        with pytest.raises(UserError, match="fetch it again"):
            read_idx(path)


def test_files_that_do_not_fit_each_other_are_refused(tmp_path, settings_of, arrays):
    images, labels = arrays
    root = write_folder(tmp_path / "idx", images, labels)
    (root / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels[:-1])))
    with pytest.raises(UserError, match="30 train images but 29 labels"):
        load_split(settings_of(root), "train")
    (root / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(UserError, match="no train-labels-idx1-ubyte"):
        load_split(settings_of(root), "train")
    (root / "train-labels-idx1-ubyte").write_bytes(idx(images))
    with pytest.raises(UserError, match="not 1 dimensions"):
        load_split(settings_of(root), "train")


@pytest.mark.parametrize("packed", [False, True])
def test_a_header_that_promises_gigabytes_takes_no_memory(tmp_path, packed):
    path = tmp_path / ("x-idx1-ubyte.gz" if packed else "x-idx1-ubyte")
    content = struct.pack(">4BI", 0, 0, 8, 1, 2**32 - 1) + b"few"
    path.write_bytes(gzip.compress(content) if packed else content)
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="holds fewer bytes than its header says"):
            read_idx(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_what_packs_best_is_still_read(tmp_path):
    path = tmp_path / "x-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(idx(np.zeros(10_000_000))))
    assert read_idx(path).shape == (10_000_000,)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=64), valid_start=st.booleans())
def test_any_bytes_give_an_array_or_a_sentence(tmp_path, content, valid_start):
    path = tmp_path / "fuzz-idx1-ubyte"
    path.write_bytes((b"\x00\x00\x08\x01\x00\x00\x00" if valid_start else b"") + content)
    with contextlib.suppress(UserError):
        assert read_idx(path).dtype == np.uint8


@pytest.mark.skipif(not FASHION.is_dir(), reason="Debian's dataset-fashion-mnist is not installed")
def test_fashion_mnist_as_debian_ships_it(settings_of):
    train = load_split(settings_of(FASHION), "train")
    assert train.images.shape == (60_000, 28, 28, 1)
    assert np.bincount(train.labels).tolist() == [6000] * 10
