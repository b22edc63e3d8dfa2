import os
import subprocess
import sys
from pathlib import Path

import datasets
import flwr_datasets
import numpy as np
import pytest

from fedeas_app.data import load_split
from fedeas_app.errors import UserError

LABELS = [0, 1, 2, 1, 0, 2] * 5


def table(arrays, png, labels=LABELS, **others):
    return {"image": [{"bytes": png(a), "path": None} for a in arrays], "label": labels} | others


@pytest.fixture
def parquet(tmp_path, pixels, png):
    """Write a folder of parquet files, train and perhaps test; return folder, arrays, labels."""

    def make(features=None, test=True, labels=LABELS, **others):
        arrays = {name: pixels(len(labels), seed=len(name)) for name in ("train", "test")}
        (tmp_path / "set" / "data").mkdir(parents=True, exist_ok=True)
        for name in ("train", "test")[: 1 + test]:
            rows = datasets.Dataset.from_dict(table(arrays[name], png, labels, **others), features)
            rows.to_parquet(tmp_path / "set" / "data" / f"{name}-00000-of-00001.parquet")
        return tmp_path / "set", arrays, np.array(labels)

    return make


def features(image=None, label=None):
    return datasets.Features(
        {"image": image or datasets.Image(), "label": label or datasets.Value("int64")}
    )


@pytest.fixture
def collection(tmp_path, pixels, png):
    """Write a folder of two subsets; return it and the labels and training images of each."""
    folder, labels = tmp_path / "sets", {"blood": LABELS, "path": [0, 1] * 10}
    arrays = {name: pixels(len(labels[name]), seed=len(name)) for name in labels}
    declared = ""
    for name, wanted in labels.items():
        (folder / name).mkdir(parents=True)
        rows = datasets.Dataset.from_dict(table(arrays[name], png, wanted), features())
        for split in ("train", "test"):
            rows.to_parquet(folder / name / f"{split}-00000-of-00001.parquet")
        declared += f"- config_name: {name}\n  data_dir: {name}\n"
    (folder / "README.md").write_text(f"---\nconfigs:\n{declared}---\nText.\n")
    return folder, arrays, labels


@pytest.fixture
def no_network(monkeypatch):
    """Even a request whose failure would be swallowed is noticed."""
    asked = []

    def refuse(*arguments, **keys):
        asked.append(arguments)
        raise OSError("no network in this test")

    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    yield
    assert asked == []


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    "image",
    [
        datasets.Image(),
        {"bytes": datasets.Value("binary"), "path": datasets.Value("string")},
    ],
    ids=["Image", "struct"],
)
def test_parquet_folder(parquet, settings_of, image):
    names = ["x", "y", "z"]
    folder, arrays, labels = parquet(features(image, datasets.ClassLabel(names=names)))
    for name in ("train", "test"):
        split = load_split(settings_of(folder), name)
        np.testing.assert_array_equal(split.images, arrays[name])
        np.testing.assert_array_equal(split.labels, labels)
        assert split.class_names == ("x", "y", "z")


@pytest.mark.usefixtures("no_network")
def test_column_of_bytes(tmp_path, settings_of, pixels, png):
    arrays = pixels(30)
    rows = datasets.Dataset.from_dict({"img": list(map(png, arrays)), "target": LABELS})
    rows.to_parquet(tmp_path / "x.parquet")
    split = load_split(settings_of(tmp_path / "x.parquet"), "train")
    assert {image.tobytes() for image in split.images} <= {image.tobytes() for image in arrays}


@pytest.mark.usefixtures("no_network")
def test_one_file_without_test_split_is_divided(parquet, settings_of):
    folder, arrays, labels = parquet(features(), test=False)
    file = next(folder.rglob("*.parquet"))
    train, test = (load_split(settings_of(file), name) for name in ("train", "test"))
    assert (len(train.labels), len(test.labels)) == (24, 6)
    np.testing.assert_array_equal(np.bincount(test.labels), [2, 2, 2])
    assert train.class_names == test.class_names == ("0", "1", "2")
    found = {image.tobytes() for split in (train, test) for image in split.images}
    assert found == {image.tobytes() for image in arrays["train"]}
    by_pixels = {
        array.tobytes(): label for array, label in zip(arrays["train"], labels, strict=True)
    }
    for split in (train, test):
        assert [by_pixels[image.tobytes()] for image in split.images] == list(split.labels)


def test_nothing_but_arrays_stays(parquet, settings_of):
    settings = settings_of(parquet(features())[0])
    load_split(settings, "train")
    (key,) = (path for path in settings.cache_path.glob("datasets/*") if path.is_dir())
    kept = {path.name for path in key.iterdir()}
    assert kept == {"images.npy", "labels.npy", "meta.json", "last-used"}
    left = {path.name for path in settings.cache_path.glob("datasets/*")}
    assert left == {key.name, f".{key.name}.lock"}


def test_readme_decides_the_files_and_the_classes(parquet, settings_of):
    folder, arrays, _ = parquet(features(datasets.Image(), datasets.ClassLabel(num_classes=3)))
    np.testing.assert_array_equal(load_split(settings_of(folder), "train").images, arrays["train"])
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: plain\n  data_files:\n"
        "  - {split: train, path: data/test-*}\n  - {split: test, path: data/train-*}\n---\nText.\n"
    )
    split = load_split(settings_of(folder), "train")
    np.testing.assert_array_equal(split.images, arrays["test"])


@pytest.mark.usefixtures("no_network")
def test_a_subset_of_a_folder_is_read(collection, settings_of):
    folder, arrays, labels = collection
    for _ in range(2):  # from the cache, each finds its own again
        for name in ("blood", "path"):
            split = load_split(settings_of(folder, dataset_subset=name), "train")
            np.testing.assert_array_equal(split.images, arrays[name])
            np.testing.assert_array_equal(split.labels, labels[name])


def test_the_folder_of_one_subset_needs_no_name(collection, settings_of):
    folder, arrays, _ = collection
    split = load_split(settings_of(folder / "path"), "train")
    np.testing.assert_array_equal(split.images, arrays["path"])


def test_a_default_subset_needs_no_name(collection, settings_of):
    folder, arrays, _ = collection
    readme = folder / "README.md"
    marked = readme.read_text().replace("data_dir: path", "data_dir: path\n  default: true")
    readme.write_text(marked)
    split = load_split(settings_of(folder), "train")
    np.testing.assert_array_equal(split.images, arrays["path"])


@pytest.mark.usefixtures("no_network")
def test_subsets_to_choose_from_are_listed(collection, settings_of):
    folder, _, _ = collection
    says(settings_of(folder), rf"The dataset {folder} has the subsets 'blood', 'path'; set "
         r"dataset-subset to one of them, or name a folder that holds one alone, as pool-dataset, "
         r"test-dataset and data-path must\.")  # fmt: skip
    says(settings_of(folder, dataset_subset="bloody"), rf"The dataset {folder} has no subset "
         r"'bloody', but 'blood', 'path'; set dataset-subset to one that it has\.")  # fmt: skip


def test_validation_stands_in_for_test(parquet, settings_of):
    folder, arrays, _ = parquet(features())
    file = folder / "data" / "test-00000-of-00001.parquet"
    file.rename(file.with_name("validation-00000-of-00001.parquet"))
    split = load_split(settings_of(folder), "test")
    np.testing.assert_array_equal(split.images, arrays["test"])


def test_texts_are_classes(parquet, settings_of):
    texts = ["dog", "cat", "owl"] * 10
    folder, _, _ = parquet(features(label=datasets.Value("string")), labels=texts)
    split = load_split(settings_of(folder), "test")
    assert split.class_names == ("cat", "dog", "owl")
    assert [split.class_names[label] for label in split.labels] == texts


def says(settings, message):
    with pytest.raises(UserError, match=f"^{message}$"):
        load_split(settings, "train")


def test_missing_labels_are_said(parquet, settings_of):
    folder, _, _ = parquet(features(), labels=[0, 1, None, 1, None, 0])
    says(settings_of(folder), "The column 'label' has no label in row 2 of the train split and in "
         r"2 in all; remove such rows or set label-column\.")  # fmt: skip


def test_missing_images_are_said(tmp_path, settings_of, pixels, png):
    images = [{"bytes": png(a), "path": None} for a in pixels(10)]
    images[3] = None
    rows = {"image": images, "label": [0, 1] * 5}
    datasets.Dataset.from_dict(rows, features()).to_parquet(tmp_path / "train.parquet")
    datasets.Dataset.from_dict(rows, features()).to_parquet(tmp_path / "test.parquet")
    says(settings_of(tmp_path), "Image 3 of column 'image' is empty; remove that row or give it an "
         r"image\.")  # fmt: skip


def test_files_of_other_columns_are_said(parquet, settings_of):
    folder, _, _ = parquet(features())
    other = datasets.Dataset.from_dict({"image": [None], "kind": [0]})
    other.to_parquet(folder / "data" / "test-00000-of-00001.parquet")
    says(settings_of(folder), rf"The dataset {folder} cannot be read as parquet \(Couldn't cast .*"
         r"column names don't match\); repair it, or name the folder .*")  # fmt: skip


def test_a_split_without_training_data_is_said(parquet, settings_of):
    folder, _, _ = parquet(features())
    (folder / "data" / "train-00000-of-00001.parquet").unlink()
    says(settings_of(folder), rf"The dataset {folder} has no split named 'train', but \['test'\]\.")


def test_broken_parquet_is_said(tmp_path, settings_of):
    (tmp_path / "x.parquet").write_bytes(b"no parquet")
    says(settings_of(tmp_path / "x.parquet"), rf"The dataset {tmp_path}/x.parquet cannot be read "
         r"as parquet \(.*\); repair it, or name the folder or file that holds the parquet "
         r"files\.")  # fmt: skip


def test_patterns_in_paths_are_said(tmp_path, settings_of):
    (tmp_path / "a[1]").mkdir()
    (tmp_path / "a[1]" / "x.parquet").write_bytes(b"")
    says(settings_of(tmp_path / "a[1]"), r"The path .*/a\[1\] has one of \* \? \[ \], which the "
         r"dataset library takes for a pattern; rename it\.")  # fmt: skip


class FakeHub:
    """Stands for FederatedDataset; ``splits`` is what the hub has."""

    splits: dict[str, datasets.Dataset]
    asked: list[dict]

    def __init__(self, **keys):
        self.asked.append(keys)

    def load_split(self, name):
        if name not in self.splits:
            raise ValueError(f"The given split: '{name}' is not present.")
        return self.splits[name]


@pytest.fixture
def hub(monkeypatch, pixels, png):
    arrays = {name: pixels(30, seed=len(name)) for name in ("train", "test", "valid")}
    FakeHub.splits = {
        name: datasets.Dataset.from_dict(table(arrays[name], png), features()) for name in arrays
    }
    FakeHub.asked = []
    monkeypatch.setattr(flwr_datasets, "FederatedDataset", FakeHub)
    return FakeHub, arrays


def test_hub_ids_go_through_federated_dataset(hub, settings_of):
    fake, arrays = hub
    settings = settings_of("owner/name", dataset_revision="v1")
    for _ in range(2):
        for name in ("train", "test"):
            np.testing.assert_array_equal(load_split(settings, name).images, arrays[name])
    expected = {"dataset": "owner/name", "partitioners": {}, "shuffle": False, "revision": "v1"}
    assert fake.asked == [expected] * 2  # once a split; the second time from the cache


def test_hub_without_test_uses_validation_or_divides(hub, settings_of):
    fake, arrays = hub
    del fake.splits["test"]
    split = load_split(settings_of("one"), "test")
    np.testing.assert_array_equal(split.images, arrays["valid"])
    del fake.splits["valid"]
    assert len(load_split(settings_of("two"), "test").labels) == 6
    assert "revision" not in fake.asked[0]


def test_the_subset_goes_to_the_hub(hub, settings_of):
    fake, arrays = hub
    split = load_split(settings_of("owner/name", dataset_subset="blood"), "train")
    np.testing.assert_array_equal(split.images, arrays["train"])
    expected = {"dataset": "owner/name", "partitioners": {}, "shuffle": False, "subset": "blood"}
    assert fake.asked == [expected]


def test_the_subsets_of_the_hub_are_listed(collection, settings_of, monkeypatch):
    """The library is asked in earnest, of a folder in the place of the hub."""
    folder, load = str(collection[0]), datasets.load_dataset
    monkeypatch.setattr(datasets, "load_dataset", lambda path, name: load(folder, name))
    says(settings_of("owner/name"), "The dataset 'owner/name' has the subsets 'blood', 'path'; set "
         r"dataset-subset to one of them, or .*")  # fmt: skip
    says(settings_of("owner/name", dataset_subset="x"), "The dataset 'owner/name' has no subset "
         r"'x', but 'blood', 'path'; set dataset-subset to one that it has\.")  # fmt: skip


def test_hub_failures_are_one_sentence(hub, settings_of):
    fake, _ = hub
    fake.splits.clear()
    says(settings_of("owner/name"), r"The dataset 'owner/name' cannot be loaded from the Hugging "
         r"Face hub \(The given split: 'train' is not present\); check the id, dataset-revision "
         r"and the network\. A local path must begin with /, \./, \.\./ or ~/\.")  # fmt: skip


def test_other_columns_of_the_test_split_are_said(hub, settings_of):
    fake, _ = hub
    fake.splits["test"] = datasets.Dataset.from_dict({"image": [None], "kind": [0]})
    says(settings_of("owner/name"), "The test split lacks the column 'label' of the training "
         r"split; it has 'image', 'kind'\.")  # fmt: skip


def test_no_rows_are_said(hub, settings_of):
    fake, _ = hub
    fake.splits["test"] = fake.splits["test"].select([])
    says(settings_of("owner/name"), r"The test split has no rows; give it some or remove it\.")


def test_a_folder_named_like_the_id_is_not_taken(hub, settings_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mnist").mkdir()
    says(settings_of("mnist"), "The dataset 'mnist' is a hub id, but a file or folder of that name "
         r"is here, .* write './mnist' for it, or start elsewhere\.")  # fmt: skip


OFFLINE = """
from fedeas_app.data import load_split
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings
try:
    load_split(Settings.parse({"dataset": "owner/name", "cache-dir": "%s"}), "train")
except UserError as error:
    print(error)
"""


def test_without_network_the_sentence_is_clear(tmp_path):
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "FLWR_TELEMETRY_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE % tmp_path],
        env=os.environ | offline,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    (line,) = done.stdout.splitlines()
    assert line.startswith("The dataset 'owner/name' cannot be loaded from the Hugging Face hub (")
    assert line.endswith("A local path must begin with /, ./, ../ or ~/.")
    assert "Traceback" not in done.stderr
