import hashlib
import io
import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fedeas_app import seeds
from fedeas_app.data import Split, load_split, sources
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings

ROOT = Path(__file__).parents[2]
CIFAR10 = ROOT.parent / "shared/data/uoft-cs/cifar10"


@pytest.fixture
def pictures(tmp_path, pixels, png):
    for number, array in enumerate(pixels(20)):
        path = tmp_path / "pictures" / ("cat", "dog")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(array))
    return tmp_path / "pictures"


def test_arrays_are_read_only_and_mapped(settings_of):
    split = load_split(settings_of(), "train")
    assert isinstance(split.images, np.memmap)
    for array in (split.images, split.labels):
        assert not array.flags.writeable
    assert (split.images.dtype, split.labels.dtype) == (np.uint8, np.int64)


def test_the_digest_covers_images_labels_and_names(settings_of):
    split = load_split(settings_of(), "test")
    state = hashlib.sha256(json.dumps([list(split.images.shape), list("0123456789")]).encode())
    state.update(split.images.tobytes())
    state.update(split.labels.tobytes())
    assert split.digest == state.hexdigest()
    assert split.digest != load_split(settings_of(), "train").digest


def test_the_second_load_decodes_nothing(pictures, settings_of, monkeypatch):
    settings = settings_of(pictures)
    first = load_split(settings, "train")
    monkeypatch.setattr(sources, "open_rows", lambda *_: pytest.fail("decoded again"))
    second = load_split(settings, "train")
    assert first.digest == second.digest
    np.testing.assert_array_equal(first.images, second.images)


def test_changed_data_and_settings_are_decoded_anew(pictures, settings_of, pixels, png):
    first = load_split(settings_of(pictures), "train")
    assert load_split(settings_of(pictures, image_size=4), "train").images.shape[1:] == (4, 4, 3)
    for number in range(0, 20, 2):
        (pictures / "cat" / f"{number}.png").write_bytes(png(pixels(1, seed=9)[0]))
    assert load_split(settings_of(pictures), "train").digest != first.digest


def test_a_change_of_time_alone_is_decoded_anew(pictures, settings_of):
    settings = settings_of(pictures)
    load_split(settings, "train")
    os.utime(pictures / "cat" / "0.png", (1, 1))
    load_split(settings, "train")
    assert sum(path.is_dir() for path in settings.cache_path.glob("datasets/*")) == 2


def test_a_cache_within_the_data_is_used_too(pictures, settings_of, monkeypatch):
    settings = settings_of(pictures, cache_dir=str(pictures / "cache"))
    first = load_split(settings, "train")
    monkeypatch.setattr(sources, "open_rows", lambda *_: pytest.fail("decoded again"))
    assert load_split(settings, "train").digest == first.digest


def damage_meta(key):
    (key / "meta.json").unlink()


def damage_meta_text(key):
    (key / "meta.json").write_text("{")


def damage_images(key):
    os.truncate(key / "images.npy", 1000)


def damage_labels(key):
    np.save(key / "labels.npy", np.full(360, 10))


def damage_shape(key):
    meta = json.loads((key / "meta.json").read_text())
    (key / "meta.json").write_text(json.dumps(meta | {"shape": [360, 8, 8, 3]}))


@pytest.mark.parametrize(
    "damage", [damage_meta, damage_meta_text, damage_images, damage_labels, damage_shape]
)
def test_damaged_caches_are_rebuilt(settings_of, damage):
    settings = settings_of()
    first = load_split(settings, "test").digest
    (key,) = (path for path in settings.cache_path.glob("datasets/*") if path.is_dir())
    damage(key)
    again = load_split(settings, "test")
    assert again.digest == first
    assert again.images.shape == (360, 8, 8, 1)


def test_subsets_are_seeded_and_labelled(settings_of):
    whole = load_split(settings_of(), "train")
    some, same, other = (
        load_split(settings_of(train_samples=100, test_samples=50, seed=seed), "train")
        for seed in (1, 1, 2)
    )
    assert some.images.shape == (100, 8, 8, 1)
    assert some.digest == same.digest != other.digest
    assert not some.images.flags.writeable
    pairs = {(i.tobytes(), y) for i, y in zip(whole.images, whole.labels, strict=True)}
    assert {(i.tobytes(), y) for i, y in zip(some.images, some.labels, strict=True)} <= pairs
    assert load_split(settings_of(test_samples=50), "test").labels.shape == (50,)


def test_a_subset_is_drawn_once_and_mapped(settings_of, monkeypatch):
    whole = load_split(settings_of(), "train")
    chosen = np.sort(seeds.numpy_rng("subset", "train", 3).choice(1437, 100, replace=False))
    settings = settings_of(train_samples=100, seed=3)
    load_split(settings, "train")
    monkeypatch.setattr(seeds, "numpy_rng", lambda *_: pytest.fail("drawn again"))
    some = load_split(settings, "train", verify=True)
    assert isinstance(some.images, np.memmap)
    np.testing.assert_array_equal(some.images, whole.images[chosen])
    np.testing.assert_array_equal(some.labels, whole.labels[chosen])
    assert some.class_names == whole.class_names


@pytest.mark.parametrize(("split", "have"), [("train", 1437), ("test", 360)])
def test_too_large_subsets_are_said(settings_of, split, have):
    message = (
        f"^{split}-samples is 2000, but the {split} set has {have} images; "
        f"give at most {have}, or 0 for all\\.$"
    )
    with pytest.raises(UserError, match=message):
        load_split(settings_of(**{f"{split}_samples": 2000}), split)


def test_unwritable_caches_are_said(tmp_path):
    (tmp_path / "file").write_text("")
    settings = Settings.parse({"cache-dir": str(tmp_path / "file")})
    with pytest.raises(UserError, match=r"cannot be written"):
        load_split(settings, "train")


LOAD = """
import sys
from fedeas_app.data import load_split
from fedeas_app.settings import Settings
split = load_split(Settings.parse({"dataset": sys.argv[1], "cache-dir": sys.argv[2]}), "train")
libraries = {"datasets", "flwr_datasets", "sklearn", "pyarrow", "pandas", "PIL", "torch", "flwr"}
print(split.digest, len(split.labels), *sorted(libraries & set(sys.modules)))
"""


def start(dataset, cache):
    command = [sys.executable, "-c", LOAD, str(dataset), str(cache)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def finish(process):
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return output.split()


def test_many_processes_make_one_copy(pictures, tmp_path):
    context = multiprocessing.get_context("fork")
    settings = Settings.parse({"dataset": str(pictures), "cache-dir": str(tmp_path / "cache")})
    with context.Pool(4) as pool:
        digests = set(pool.map(_digest, [settings] * 12, chunksize=1))
    assert len(digests) == 1
    assert sum(path.is_dir() for path in (tmp_path / "cache" / "datasets").iterdir()) == 1


def _digest(settings):
    return load_split(settings, "train").digest


def test_the_second_load_imports_no_library(pictures, tmp_path):
    first, second = (finish(start(pictures, tmp_path / "cache")) for _ in range(2))
    assert first[:2] == second[:2]
    assert first[2:] != []
    assert second[2:] == []


@pytest.fixture(scope="module")
def cifar10(tmp_path_factory):
    if not CIFAR10.is_dir():
        pytest.skip("CIFAR-10 is not at ../shared/data/uoft-cs/cifar10")
    cache = tmp_path_factory.mktemp("cifar10")
    return Settings.parse({"dataset": str(CIFAR10), "cache-dir": str(cache)})


@pytest.mark.parametrize(("name", "count"), [("train", 50_000), ("test", 10_000)])
def test_cifar10(cifar10, name, count):
    split = load_split(cifar10, name)
    assert split.images.shape == (count, 32, 32, 3)
    assert split.class_names[:3] == ("airplane", "automobile", "bird")
    np.testing.assert_array_equal(np.bincount(split.labels), [count // 10] * 10)
    (file,) = CIFAR10.glob(f"*/{name}-*.parquet")
    frame = pd.read_parquet(file)
    np.testing.assert_array_equal(split.labels, frame["label"])
    for row in (0, 1, 4_321, count - 1):
        image = Image.open(io.BytesIO(frame["img"][row]["bytes"]))
        np.testing.assert_array_equal(split.images[row], np.asarray(image.convert("RGB")))


def test_cifar10_again_is_fast_and_imports_nothing(cifar10):
    load_split(cifar10, "train")
    before = time.perf_counter()
    load_split(cifar10, "train")
    assert time.perf_counter() - before < 0.5
    _, count, *libraries = finish(start(CIFAR10, cifar10.cache_path))
    assert (count, libraries) == ("50000", [])


def test_changed_pixels_are_noticed_when_asked_and_decoded_anew(settings_of):
    settings = settings_of()
    whole = load_split(settings, "train")
    pixels = whole.images.copy()
    (file,) = settings.cache_path.glob("datasets/*/images.npy")
    content = bytearray(file.read_bytes())
    content[200:6000] = bytes(5800)
    file.write_bytes(content)
    assert not np.array_equal(load_split(settings, "train").images, pixels)
    repaired = load_split(settings, "train", verify=True)
    assert np.array_equal(repaired.images, pixels)
    assert repaired.digest == whole.digest


def test_the_shape_of_an_image():
    split = Split(np.zeros((5, 4, 6, 3), np.uint8), np.zeros(5, np.int64), ("a",), "digest")
    assert split.image_shape == (4, 6, 3)
