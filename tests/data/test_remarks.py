"""What a user is told about the data beside numbers: folders of classes without an image."""

import pytest

from fedeas_app.data.remarks import empty_folders, remarks
from fedeas_app.errors import UserError


@pytest.fixture
def pets(tmp_path):
    """Cats and dogs have an image each; cows and mice have a folder alone."""
    root = tmp_path / "pets"
    for name in ("cat", "cow", "dog/pups", "mouse"):
        (root / name).mkdir(parents=True)
    (root / "cat/1.png").touch()
    (root / "dog/pups/1.JPG").touch()
    (root / "cow/notes.txt").touch()
    (root / "mouse/.1.png").touch()
    return root


def test_folders_without_an_image_are_named(pets, settings_of):
    advice = "no class of the run; to have it count as absent, list all in classes."
    assert empty_folders(settings_of(pets)) == [
        f"The folder 'cow' of {pets} has no image and is {advice}",
        f"The folder 'mouse' of {pets} has no image and is {advice}",
    ]


def test_a_class_of_the_list_is_absent(pets, settings_of):
    cow, mouse = empty_folders(settings_of(pets, classes="cat, dog, cow"))
    assert cow == f"The folder 'cow' of {pets} has no image: this class is absent."
    assert "'mouse'" in mouse
    assert "no class of the run" in mouse


def test_of_a_split_folder_the_training_part_counts(pets, settings_of, tmp_path):
    root = tmp_path / "split"
    root.mkdir()
    pets.rename(root / "train")
    (root / "test/cat").mkdir(parents=True)
    told = empty_folders(settings_of(root))
    assert [line.split("'")[1] for line in told] == ["cow", "mouse"]


def test_of_other_sources_nothing_is_said(pets, settings_of):
    assert empty_folders(settings_of("digits")) == empty_folders(settings_of("some/hub-id")) == []
    (pets / "train.parquet").touch()
    assert empty_folders(settings_of(pets)) == []
    with pytest.raises(UserError, match="does not exist"):
        empty_folders(settings_of(pets / "nowhere"))


def test_they_come_after_the_poor_clients(pets, settings_of):
    settings = settings_of(pets, noisy_fraction=1.0, classes="cat, dog, cow, mouse")
    noisy, cow, mouse = remarks(2, settings)
    assert noisy.startswith("Noisy (40% of the labels wrong): clients 0, 1")
    assert cow.endswith("this class is absent.")
    assert mouse.endswith("this class is absent.")
