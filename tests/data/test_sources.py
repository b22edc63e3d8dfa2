import re

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedeas_app.data import load_split
from fedeas_app.data.sources import fingerprint
from fedeas_app.errors import UserError


def test_digits_are_scaled_and_held_out_the_same_for_every_seed(settings_of):
    train, test = (load_split(settings_of(seed=1), name) for name in ("train", "test"))
    assert train.images.shape == (1437, 8, 8, 1)
    assert test.images.shape == (360, 8, 8, 1)
    assert train.class_names == tuple("0123456789")
    assert load_split(settings_of(seed=2), "test").digest == test.digest
    values, labels = load_digits(return_X_y=True)
    grey = np.array([round(value * 255 / 16) for value in range(17)])[values.astype(int)]
    every = sorted(zip(map(bytes, grey.astype(np.uint8)), labels, strict=True))
    found = [
        (image.tobytes(), label)
        for split in (train, test)
        for image, label in zip(split.images, split.labels, strict=True)
    ]
    assert sorted(found) == every
    share = np.bincount(test.labels) / np.bincount(labels)
    assert np.all(abs(share - 0.2) < 0.01)


@pytest.mark.parametrize("dataset", ["data/sets/mine", "a b", "/../x?", "-x", "."])
def test_what_is_neither_id_nor_path_is_said(settings_of, dataset):
    local = dataset.startswith("/")
    message = (
        "The dataset /x? does not exist; correct the path."
        if local
        else f"dataset is {dataset!r}; 'digits', a hub id such as 'uoft-cs/cifar10', or a local "
        "path that begins with /, ./, ../ or ~/ is allowed."
    )
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        load_split(settings_of(dataset), "train")


def test_relative_and_home_paths_are_local(settings_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for dataset in ("./here", "~/here", "../x/../here"):
        with pytest.raises(UserError, match=r" /.*/here does not exist; correct the path\.$"):
            load_split(settings_of(dataset), "train")
    with pytest.raises(UserError, match=r"^The dataset '~nobody-here/x' names an unknown home"):
        load_split(settings_of("~nobody-here/x"), "train")


@pytest.fixture
def without_subsets(tmp_path, png, pixels):
    """Write data of each kind that has no subsets; return their paths."""
    for folder in ("scans/cat", "idx"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "scans/cat/1.png").write_bytes(png(pixels(1)[0]))
    for name in ("idx/train-images-idx3-ubyte", "one.parquet"):
        (tmp_path / name).write_bytes(b"")
    return {name: str(tmp_path / name) for name in ("scans", "idx", "one.parquet")}


@pytest.mark.parametrize(
    ("kind", "words"),
    [("digits", "the dataset is 'digits'"), ("scans", "/scans is a folder without parquet files"),
     ("idx", "/idx is a folder of IDX files"), ("one.parquet", "/one.parquet is one file")],
)  # fmt: skip
def test_a_subset_is_refused_where_there_are_none(settings_of, without_subsets, kind, words):
    settings = settings_of(without_subsets.get(kind, kind), dataset_subset="blood")
    with pytest.raises(UserError) as caught:
        load_split(settings, "train")
    said = str(caught.value)
    assert said.startswith("dataset-subset is 'blood', but ")
    assert said.endswith(
        f"{words}, and only a hub dataset or a folder of parquet files has subsets; leave it empty."
    )


def test_without_a_subset_what_identifies_the_data_stays(settings_of, tmp_path):
    asked = {"dataset_revision": "v1"}
    assert fingerprint(settings_of()) == ["digits"]
    assert fingerprint(settings_of("owner/name", **asked)) == ["hub", "owner/name", "v1"]
    assert fingerprint(settings_of(tmp_path)) == ["local", str(tmp_path), []]
    named = settings_of("owner/name", dataset_subset="blood", **asked)
    assert fingerprint(named) == ["hub", "owner/name", "v1", "blood"]


def test_other_files_are_said(settings_of, tmp_path):
    (tmp_path / "x.csv").write_text("a,b")
    with pytest.raises(
        UserError, match=r"x\.csv is not a parquet file; give a file named \*\.parq"
    ):
        load_split(settings_of(tmp_path / "x.csv"), "train")
