"""What an entry is, as far as it can be read."""

import re

from full_cache import by_kind, only

from fedeas_app import inventory


def test_an_older_drawer_says_what_it_can(cache):
    only(cache, "synthetic/*/*/drawer.json").unlink()
    assert inventory.describe(by_kind(cache)["synthetic"]) == "8 images by a generator not recorded"
    assert inventory.verify(cache) == []


def test_what_cannot_be_described_is_listed_all_the_same(cache):
    only(cache, "datasets/*/meta.json").write_text("[]")
    only(cache, "partitions/*/sizes.npy").unlink()
    what = {kind: inventory.describe(entry) for kind, entry in by_kind(cache).items()}
    assert what["datasets"] == what["partitions"] == "not readable"


def test_a_drawer_says_nothing_about_labels(cache):
    text = only(cache, "synthetic/*/*/drawer.json").read_text()
    assert sorted(re.findall(r'"(\w+)":', text)) == ["digest", "generator", "machine"]
