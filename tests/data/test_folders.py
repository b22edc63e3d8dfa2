import os
import re

import numpy as np
import pytest

from fedeas_app.data import load_split
from fedeas_app.errors import UserError


@pytest.fixture
def folder(tmp_path, pixels, png):
    """Write images as named; return the folder and a mapping from name to pixels."""

    def make(*names):
        arrays = dict(zip(names, pixels(len(names)), strict=True))
        for name, array in arrays.items():
            path = tmp_path / "pictures" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(array))
        return tmp_path / "pictures", arrays

    return make


def numbered(*prefixes, count=5):
    return [f"{prefix}/{number}.png" for prefix in prefixes for number in range(count)]


def check(split, arrays, where):
    """Every image has the label of its folder."""
    for image, label in zip(split.images, split.labels, strict=True):
        (name,) = (name for name, array in arrays.items() if np.array_equal(array, image))
        assert name.startswith(f"{where}{split.class_names[label]}/")


def test_split_folders(folder, settings_of):
    root, arrays = folder(*numbered("train/cat", "train/dog", "test/cat", "test/dog", "val/cat"))
    for name in ("train", "test"):
        split = load_split(settings_of(root), name)
        assert split.class_names == ("cat", "dog")
        np.testing.assert_array_equal(split.labels, [0] * 5 + [1] * 5)
        check(split, arrays, f"{name}/")


@pytest.mark.parametrize("prefix", ["", "train/"])
def test_without_test_folder_a_fifth_is_held_out(folder, settings_of, prefix):
    root, arrays = folder(*numbered(prefix + "cat", prefix + "dog"))
    splits = [load_split(settings_of(root), name) for name in ("train", "test")]
    assert [len(split.labels) for split in splits] == [8, 2]
    for split in splits:
        check(split, arrays, prefix)


def test_classes_called_train_and_test_stay_classes(folder, settings_of):
    root, arrays = folder(*numbered("train", "test"))
    split = load_split(settings_of(root), "train")
    assert split.class_names == ("test", "train")
    check(split, arrays, "")


def test_file_names_do_not_decide_the_split(folder, settings_of):
    root, _ = folder("a/train_1.png", "a/test_1.png", *numbered("a", "b"), "b/test_1.PNG")
    (root / "a" / "notes.txt").write_text("no image")
    (root / "a" / ".hidden.png").write_text("no image")
    splits = [load_split(settings_of(root, image_size=4), name) for name in ("train", "test")]
    assert sum(len(split.labels) for split in splits) == 13


def test_a_test_class_unknown_to_training_is_said(folder, settings_of):
    root, _ = folder(*numbered("train/cat", "train/dog", "test/cow"))
    with pytest.raises(UserError, match=r"labels that the training set lacks: 'cow'; remove"):
        load_split(settings_of(root), "train")


def test_unreadable_files_are_named(folder, settings_of):
    root, _ = folder(*numbered("train/cat", "train/dog", "test/dog"))
    (root / "train" / "dog" / "2.png").write_bytes(b"broken")
    message = f"Image {root / 'train' / 'dog' / '2.png'} cannot be read ("
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        load_split(settings_of(root), "train")


@pytest.mark.parametrize("names", [[], ["1.png", "2.png"], ["train/1.png"]])
def test_folders_without_classes_are_said(folder, settings_of, names):
    root, _ = folder(*names)
    root.mkdir(exist_ok=True)
    single = names == ["train/1.png"]
    message = (
        r"^The dataset has one class, 'train'; at least two are needed"
        if single
        else rf"^The folder {root} has no images in subfolders named after their classes, and no "
        r"parquet files; arrange it as class/image\.png or train/class/image\.png\.$"
    )
    with pytest.raises(UserError, match=message):
        load_split(settings_of(root), "train")


def test_too_few_images_to_hold_out_are_said(folder, settings_of):
    root, _ = folder("cat/1.png", "dog/1.png", "dog/2.png")
    message = (
        "The dataset has no test split, and a fifth of its 3 images cannot be held out with every "
        "class in both parts; add a test split or more images of each class."
    )
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        load_split(settings_of(root), "train")


def test_linked_folders_are_followed_and_dead_links_said(folder, settings_of, tmp_path):
    root, _ = folder(*numbered("cat"))
    (tmp_path / "elsewhere").mkdir()
    os.rename(root / "cat", tmp_path / "elsewhere" / "cat")
    for name in ("cat", "dog"):
        (root / name).symlink_to(tmp_path / "elsewhere" / "cat")
    assert load_split(settings_of(root), "train").class_names == ("cat", "dog")
    (root / "dead.png").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"^The file .*/dead\.png cannot be read \(No such file"):
        load_split(settings_of(root), "train")
