"""The card: read, absent, or wrong."""

import json

import pytest

from fedeas_app.generators.card import Card, CardError, Origin, read_card, write_card
from fedeas_app.settings import Settings


@pytest.fixture
def write(tmp_path):
    def make(content):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (tmp_path / "card.json").write_bytes(data)
        return tmp_path

    return make


def test_a_card_is_read(write):
    content = {"classes": ["a", "ä"], "null-label": 2, "pixel-unshuffle": 2, "more": {"x": 1}}
    assert read_card(write(content), 3, 12) == Card(("a", "ä"), 2, 2)


def test_without_a_card_nothing_is_known(tmp_path):
    assert read_card(tmp_path, 3, 1) == Card((), None, 1)


@pytest.mark.parametrize("content", [{}, {"null-label": None, "pixel-unshuffle": 1}])
def test_a_card_from_before_there_were_null_labels(write, content):
    assert read_card(write(content), 3, 1) == Card()


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", [1], "text", 3])
def test_a_card_that_cannot_be_read(write, content):
    with pytest.raises(CardError):
        read_card(write(content), 3, 1)


@pytest.mark.parametrize("value", [0, 1, 3, -1, 2.0, "2", True, [2]])
def test_the_null_label_is_the_last_label(write, value):
    assert read_card(write({"null-label": 2}), 3, 1).null_label == 2
    with pytest.raises(CardError, match=r"null-label is .*, but the network's last label is 2"):
        read_card(write({"null-label": value}), 3, 1)


@pytest.mark.parametrize("value", [0, -1, 3, 4, 2.0, "2", None, True])
def test_blocks_of_pixels_fit_the_channels(write, value):
    assert read_card(write({"pixel-unshuffle": 2}), 3, 12).unshuffle == 2
    with pytest.raises(CardError, match=r"pixel-unshuffle is .*, which the network's 12 channels"):
        read_card(write({"pixel-unshuffle": value}), 3, 12)


@pytest.mark.parametrize("value", ["ab", [1], None, {"a": 1}])
def test_classes_are_names(write, value):
    with pytest.raises(CardError, match="classes is no list of names"):
        read_card(write({"classes": value}), 3, 1)


@pytest.mark.parametrize("card", [Card(("a", "ä"), 2, 2), Card(("a", "b", "c"), None, 1)])
def test_what_is_written_is_read(tmp_path, card):
    write_card(tmp_path, card, {"versions": {"torch": "2"}})
    assert read_card(tmp_path, 3, 12) == card
    content = json.loads((tmp_path / "card.json").read_text())
    assert content["kind"] == "class-conditional DDPM"
    assert content["versions"] == {"torch": "2"}


@pytest.mark.parametrize(
    ("dataset", "name"),
    [("digits", "digits"), ("uoft-cs/cifar10", "uoft-cs/cifar10"), ("mnist", "mnist"),
     ("/home/me/data/flowers", "flowers"), ("~/flowers/train.parquet", "train.parquet"),
     ("./flowers/", "flowers"), ("../flowers", "flowers")],
)  # fmt: skip
def test_the_origin_names_no_place_of_this_machine(dataset, name):
    assert Origin.of(Settings.parse({"dataset": dataset})) == Origin(name, None)


def test_the_origin_has_the_revision_asked_for():
    asked = {"dataset": "owner/name", "dataset-revision": "0" * 40}
    assert Origin.of(Settings.parse(asked)) == Origin("owner/name", "0" * 40)


def test_the_origin_has_the_subset_asked_for():
    asked = {"dataset": "/home/me/medical", "dataset-subset": "blood"}
    assert Origin.of(Settings.parse(asked)) == Origin("medical (blood)", None)
