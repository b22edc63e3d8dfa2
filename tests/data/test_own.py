"""What one site trains on and holds out, and the server's test set beside it."""

import numpy as np
import pytest
from own_data import NAMES, OWN_KEYS, write_site
from PIL import Image

from fedeas_app.data import classes_and_shape, load_own, load_split, load_test_dataset
from fedeas_app.errors import UserError


@pytest.fixture
def own(settings_of):
    """Settings of a run on own data; keys override them."""

    def make(**keys):
        return settings_of(**(OWN_KEYS | keys))

    return make


def images_of(split):
    return {image.tobytes() for image in split.images}


def test_classes_map_by_name_and_absent_ones_count_nothing(own, tmp_path):
    site = write_site(tmp_path / "site", [7, 2], count=10)
    train, test = (load_own(own(), site, name) for name in ("train", "test"))
    assert train.class_names == test.class_names == NAMES
    assert np.bincount(train.labels, minlength=10).tolist() == [0, 0, 8, 0, 0, 0, 0, 8, 0, 0]
    assert np.bincount(test.labels, minlength=10).tolist() == [0, 0, 2, 0, 0, 0, 0, 2, 0, 0]
    assert not images_of(train) & images_of(test)
    for label in (2, 7):
        stored = {
            np.asarray(Image.open(file)).tobytes() for file in (site / NAMES[label]).iterdir()
        }
        assert {image.tobytes() for image in train.images[train.labels == label]} <= stored


def test_the_order_of_the_list_is_the_number_of_a_class(own, tmp_path):
    site = write_site(tmp_path / "site", [7, 2], count=5)
    settings = own(classes=" kind-seven , kind-two,kind-one ")
    assert sorted(set(load_own(settings, site, "train").labels.tolist())) == [0, 1]
    assert load_own(settings, site, "train").class_names == ("kind-seven", "kind-two", "kind-one")


def test_a_class_that_the_list_lacks_is_named_with_folder_and_list(own, tmp_path):
    site = write_site(tmp_path / "site", [7, 2], count=5)
    with pytest.raises(UserError) as caught:
        load_own(own(classes="kind-one,kind-two"), site, "train")
    assert str(caught.value) == (
        f"The dataset {site} has images of the class 'kind-seven', but classes lists "
        "'kind-one', 'kind-two'; "
        "rename the class, take it out, or set another list."
    )


def test_a_site_with_a_test_folder_holds_out_nothing_else(own, tmp_path):
    write_site(tmp_path / "site/train", [1, 2], count=10)
    write_site(tmp_path / "site/test", [2, 3], first=20, count=4)
    train, test = (load_own(own(), tmp_path / "site", name) for name in ("train", "test"))
    assert len(train.labels) == 20
    assert np.bincount(test.labels, minlength=10).tolist() == [0, 0, 4, 4, 0, 0, 0, 0, 0, 0]


def test_where_the_server_tests_a_site_trains_on_all(own, tmp_path):
    site = write_site(tmp_path / "site", [1, 2], count=10)
    settings = own(test_dataset=str(tmp_path / "unused"))
    assert len(load_own(settings, site, "train").labels) == 20


def test_a_site_of_few_images_may_hold_out_none(own, tmp_path):
    site = write_site(tmp_path / "site", [4], count=2)
    assert len(load_own(own(), site, "train").labels) == 2
    for _ in range(2):  # decoded, then read from the cache
        test = load_own(own(), site, "test")
        assert test.images.shape == (0, 8, 8, 1)
        assert len(test.labels) == 0


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_images_of_any_kind_are_brought_to_the_runs(own, tmp_path, mode):
    """Also where the first one of a site is of another kind than that of its neighbour's."""
    for number in range(4):
        (tmp_path / "site/kind-two").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 10), (200, 100, 50)).convert(mode).save(
            tmp_path / f"site/kind-two/{number}.png"
        )
    grey = load_own(own(), tmp_path / "site", "train").images
    assert grey.shape == (3, 8, 8, 1)
    assert abs(int(grey[0, 0, 0, 0]) - (0.299 * 200 + 0.587 * 100 + 0.114 * 50)) < 3
    colour = load_own(own(image_channels=3), tmp_path / "site", "train").images
    assert colour.shape == (3, 8, 8, 3)
    if mode == "L":
        assert (colour == colour[..., :1]).all()


def test_numbered_labels_map_by_their_digits(own, tmp_path):
    pixels = np.arange(4 * 64, dtype=np.uint8).reshape(4, 8, 8)
    header = bytes([0, 0, 8, 3]) + np.array([4, 8, 8], ">i4").tobytes()
    (tmp_path / "site").mkdir()
    (tmp_path / "site/train-images-idx3-ubyte").write_bytes(header + pixels.tobytes())
    labels = bytes([0, 0, 8, 1]) + np.array([4], ">i4").tobytes() + bytes([5, 3, 3, 5])
    (tmp_path / "site/train-labels-idx1-ubyte").write_bytes(labels)
    train = load_own(own(classes="3,4,5"), tmp_path / "site", "train")
    assert train.labels.tolist() == [2, 0, 0, 2]
    with pytest.raises(UserError, match="class '3', '5', but classes lists 'three', 'five'"):
        load_own(own(classes="three,five"), tmp_path / "site", "train")


def test_the_servers_test_set_is_a_whole_dataset(own, tmp_path):
    assert load_test_dataset(own()) is None
    write_site(tmp_path / "all", [0, 9], count=6)
    test = load_test_dataset(own(test_dataset=str(tmp_path / "all")))
    assert np.bincount(test.labels).tolist() == [6, 0, 0, 0, 0, 0, 0, 0, 0, 6]
    write_site(tmp_path / "parts/train", [0, 9], count=6)
    write_site(tmp_path / "parts/test", [0], count=3)
    test = load_test_dataset(own(test_dataset=str(tmp_path / "parts")))
    assert test.labels.tolist() == [0, 0, 0]


def test_the_digits_that_the_shipped_generator_has_seen_test_nothing(own):
    digits = own(classes="0,1,2,3,4,5,6,7,8,9", test_dataset="digits")
    assert len(load_test_dataset(digits).labels) == 360


def test_a_run_knows_its_classes_and_images_without_data(own, settings_of):
    assert classes_and_shape(own()) == (NAMES, (8, 8, 1))
    assert classes_and_shape(settings_of()) == (tuple("0123456789"), (8, 8, 1))


def test_classes_of_a_shared_dataset_can_be_put_in_order_too(settings_of):
    backwards = load_split(settings_of(classes="9,8,7,6,5,4,3,2,1,0"), "train")
    usual = load_split(settings_of(), "train")
    assert backwards.labels.tolist() == (9 - usual.labels).tolist()
    assert np.array_equal(backwards.images, usual.images)
