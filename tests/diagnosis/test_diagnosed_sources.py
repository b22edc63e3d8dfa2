"""Where a dataset is, without fetching or reading it."""

import pytest

from fedeas_app.data import load_split
from fedeas_app.diagnosis.sources import in_library_cache, look_at_dataset
from fedeas_app.errors import UserError


@pytest.fixture(autouse=True)
def hub_cache(tmp_path, monkeypatch):
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_digits_and_own_images_are_never_fetched(configure):
    assert look_at_dataset("dataset", configure()).status == "ok"
    own = configure(
        dataset="own", classes="a,b", image_size=8, image_channels=1, train_samples=0,
        test_samples=0,
    )  # fmt: skip
    assert "data-path" in look_at_dataset("dataset", own).found


def test_a_local_path_is_there_or_not(configure, tmp_path):
    (tmp_path / "scans" / "a").mkdir(parents=True)
    found = look_at_dataset("dataset", configure(dataset=str(tmp_path / "scans")))
    assert found.found.endswith("to be decoded at its first use")
    with pytest.raises(UserError, match="does not exist"):
        look_at_dataset("dataset", configure(dataset=str(tmp_path / "none")))


def test_what_is_decoded_is_found_in_the_cache(configure, tmp_path):
    from PIL import Image

    for name in ("a", "b"):
        (tmp_path / "scans" / name).mkdir(parents=True)
        for number in range(5):
            Image.new("L", (4, 4), number).save(tmp_path / "scans" / name / f"{number}.png")
    settings = configure(dataset=str(tmp_path / "scans"), train_samples=0, test_samples=0)
    load_split(settings, "train")
    assert look_at_dataset("dataset", settings).found.endswith("decoded in the cache")


def test_a_dataset_of_the_hub(configure, hub_cache, monkeypatch):
    settings = configure(dataset="uoft-cs/cifar10")
    away = look_at_dataset("dataset", settings)
    assert (away.status, away.found) == ("warning", "uoft-cs/cifar10, not on this machine")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    offline = look_at_dataset("dataset", settings)
    assert offline.status == "problem"
    assert offline.advice.startswith("HF_HUB_OFFLINE forbids to download it")
    (hub_cache / "uoft-cs___cifar10").mkdir(parents=True)
    assert look_at_dataset("dataset", settings).status == "ok"


def test_the_librarys_spelling_of_names(tmp_path):
    (tmp_path / "Owner___cat_and_dog").mkdir()
    assert in_library_cache("Owner/CatAndDog", tmp_path)
    assert not in_library_cache("Owner/Cat", tmp_path)
