"""The inventory sees what is there and touches nothing."""

import re
import shutil
from pathlib import Path

import pytest
from full_cache import age, by_kind, fill, kinds, only, tree

from fedeas_app import inventory
from fedeas_app.errors import UserError
from fedeas_app.inventory import KINDS, LAST_USED, listing


def test_every_kind_is_listed_with_what_it_is(cache):
    found = inventory.take(cache)
    assert [entry.kind for entry in found.entries] == list(KINDS)
    assert found.foreign == []  # lock files are nobody's business
    assert [inventory.describe(entry) for entry in found.entries] == [
        "digits train: 1,437 images of 8x8",
        "1,437 images for 4 clients",
        "unpacked generator 'digits'",
        "scheduler for 1,000 steps of ddim",
        "8 images by 'fake', cpu torch-2",
        "kept between the rounds of one run by 2 clients",
    ]
    assert all(entry.finished and entry.path.name == entry.key for entry in found.entries)
    assert re.fullmatch("[0-9a-f]{12}", found.entries[0].short)
    assert re.fullmatch("digits-[0-9a-f]{12}", found.entries[2].short)


def test_sizes_and_times_are_those_of_the_files(cache):
    for entry in inventory.take(cache).entries:
        files = [path for path in entry.path.rglob("*") if path.is_file()]
        assert entry.size == sum(path.stat().st_size for path in files)
        written = [path for path in [entry.path, *files] if path.name != LAST_USED]
        assert entry.written == max(path.stat().st_mtime for path in written)
    assert inventory.take(cache).size == sum(e.size for e in inventory.take(cache).entries) > 2e6


def test_looking_and_checking_write_nothing(cache):
    before = tree(cache)
    inventory.take(cache)
    assert inventory.verify(cache) == []
    assert tree(cache) == before


def test_a_cache_that_is_not_there(tmp_path):
    absent = tmp_path / "absent"
    assert inventory.take(absent) == inventory.Inventory()
    assert inventory.verify(absent) == []
    assert inventory.clear(absent) == inventory.Removal()
    assert not absent.exists()


def test_a_file_is_no_cache(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file is not a directory; name another one\.$"):
        inventory.take(tmp_path / "file")


def test_a_cache_that_cannot_be_read(cache, monkeypatch):
    def refuse(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(UserError, match=r"cannot be read \(Permission denied\); check"):
        inventory.take(cache)


def test_a_cache_behind_a_link_is_a_cache(cache, tmp_path):
    (tmp_path / "link").symlink_to(cache)
    assert kinds(tmp_path / "link") == list(KINDS)


def test_entries_that_go_while_they_are_listed(cache, monkeypatch):
    gone = by_kind(cache)["partitions"].path
    real = listing.measure

    def late(path):
        shutil.rmtree(gone, ignore_errors=True)
        return real(path)

    monkeypatch.setattr(listing, "measure", late)
    assert kinds(cache) == [
        "datasets", "generators", "schedulers", "synthetic", "client-states",
    ]  # fmt: skip


# --- last use ---


def test_the_last_use_is_known_of_all_but_client_states(cache):
    entries = by_kind(cache)
    stamp = only(cache, f"synthetic/*/*/{LAST_USED}")
    assert entries["synthetic"].read == stamp.stat().st_mtime
    stamp = only(cache, f"datasets/*/{LAST_USED}")
    assert entries["datasets"].read == stamp.stat().st_mtime
    assert [kind for kind, entry in entries.items() if entry.read is None] == ["client-states"]


@pytest.mark.parametrize("kind", inventory.REPLACEABLE)
def test_using_is_not_writing(cache, kind):
    age(cache, 3)
    before = by_kind(cache)[kind]
    fill(cache)
    after = by_kind(cache)[kind]
    assert after.written == before.written == before.used
    assert after.used == after.read > before.used + 2.9 * 86400


def test_what_was_written_after_its_last_recorded_use_was_used_then():
    entry = inventory.Entry("synthetic", "key", Path("path"), 1, written=20.0, read=10.0)
    assert entry.used == 20.0


def test_drawers_alone_are_taken(cache):
    assert inventory.take_drawers(cache) == [by_kind(cache)["synthetic"]]
    assert inventory.take_drawers(cache / "absent") == []


def test_drawers_behind_a_link_are_taken(cache, tmp_path):
    shutil.move(cache / "synthetic", tmp_path / "large-disk")
    (cache / "synthetic").symlink_to(tmp_path / "large-disk")
    (drawer,) = inventory.take_drawers(cache)
    assert drawer.size > 0
