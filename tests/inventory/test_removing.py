"""Entries go whole, nothing else goes, and other processes do not mind."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fake_generator import FakeGenerator
from filelock import FileLock
from full_cache import NEED, age, by_kind, fill, kinds, only, tree

from fedeas_app import inventory
from fedeas_app.generators.cache import Drawer
from fedeas_app.inventory import KINDS, LAST_USED, removing


def test_everything_goes_and_comes_again(cache, made):
    size = inventory.take(cache).size
    removal = inventory.clear(cache, KINDS)
    assert len(removal.removed) == len(KINDS) == 6
    assert removal.size == size
    left = [path for path in cache.rglob("*") if path.is_file()]
    assert all(path.name.endswith(".lock") for path in left)
    assert inventory.take(cache) == inventory.Inventory()
    fill(cache)
    assert kinds(cache) == list(KINDS)


def test_what_a_run_may_be_using_goes_only_when_it_is_named(cache):
    inventory.clear(cache)
    assert kinds(cache) == ["client-states"]
    inventory.clear(cache, ["client-states"], older_than_days=2)
    assert kinds(cache) == ["client-states"]
    age(by_kind(cache)["client-states"].path, 3)
    inventory.clear(cache, ["client-states"], older_than_days=2)
    assert kinds(cache) == []


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_goes(cache, kind):
    inventory.clear(cache, [kind])
    assert kinds(cache) == [other for other in KINDS if other != kind]


def test_only_what_is_old_goes(cache):
    old = by_kind(cache)["partitions"].path
    age(old, 3)
    assert inventory.select(cache, older_than_days=4) == []
    inventory.clear(cache, older_than_days=2)
    assert kinds(cache) == [kind for kind in KINDS if kind != "partitions"]


def test_what_was_used_lately_stays(cache):
    age(cache, 3)
    fill(cache)
    assert "synthetic" not in [entry.kind for entry in inventory.select(cache, older_than_days=2)]
    only(cache, f"synthetic/*/*/{LAST_USED}").unlink()
    age(by_kind(cache)["synthetic"].path, 3)  # no use is recorded: it was written three days ago
    inventory.clear(cache, older_than_days=2)
    assert kinds(cache) == [kind for kind in KINDS if kind != "synthetic"]


def test_what_an_interrupted_process_left_goes_too(cache):
    entry = by_kind(cache)["datasets"]
    rest = entry.path.with_name(f".{entry.key}.{'0' * 32}")
    rest.mkdir()
    (rest / "images.npy").write_bytes(b"half")
    (found,) = [entry for entry in inventory.take(cache).entries if not entry.finished]
    assert (found.path, found.size) == (rest, 4)
    assert inventory.verify(cache) == []
    inventory.clear(cache, ["datasets"])
    assert not rest.exists()


def test_what_is_being_built_is_kept(cache, monkeypatch):
    monkeypatch.setattr(removing, "_PATIENCE", 0.05)
    entry = by_kind(cache)["datasets"]
    with FileLock(entry.path.parent / f".{entry.key}.lock"):
        removal = inventory.clear(cache, KINDS)
    assert removal.kept == [(entry.path, "another process is building it")]
    assert kinds(cache) == ["datasets"]


# --- what is not ours ---


def test_foreign_files_are_mentioned_and_left(cache):
    foreign = [
        cache / "notes.txt",
        cache / "models" / "big.bin",
        cache / "datasets" / "mine" / "a.png",
        cache / "generators" / ".hidden",
        cache / "synthetic" / "ab" / ("0" * 64) / "x",  # a drawer's name in the wrong place
        cache / "partitions" / ("f" * 64),  # a file where a directory should be
    ]
    for path in foreign:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("keep")
    assert set(inventory.take(cache).foreign) == {
        cache / "notes.txt",
        cache / "models",
        cache / "datasets" / "mine",
        cache / "generators" / ".hidden",
        cache / "synthetic" / "ab" / ("0" * 64),
        cache / "partitions" / ("f" * 64),
    }
    assert len(inventory.clear(cache).removed) == 5
    assert all(path.read_text() == "keep" for path in foreign)


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_that_is_a_link_is_not_followed(cache, tmp_path, kind):
    entry = by_kind(cache)[kind]
    outside = tmp_path / "outside"
    shutil.move(entry.path, outside)
    entry.path.symlink_to(outside)
    before = tree(outside)
    assert inventory.take(cache).foreign == [entry.path]
    inventory.clear(cache, KINDS)
    inventory.remove([entry])  # even when it became a link after it was listed
    assert entry.path.is_symlink()
    assert tree(outside) == before


def test_a_kind_that_is_a_link_is_not_followed(cache, tmp_path):
    shutil.move(cache / "datasets", tmp_path / "outside")
    (cache / "datasets").symlink_to(tmp_path / "outside")
    before = tree(tmp_path / "outside")
    inventory.clear(cache)
    assert inventory.take(cache).foreign == [cache / "datasets"]
    assert tree(tmp_path / "outside") == before


def test_a_link_in_an_entry_goes_without_what_it_leads_to(cache, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("keep")
    entry = by_kind(cache)["datasets"]
    (entry.path / "link").symlink_to(outside)
    (entry.path / "file").symlink_to(outside / "precious")
    inventory.clear(cache)
    assert not entry.path.exists()
    assert (outside / "precious").read_text() == "keep"


# --- other processes ---


def test_what_another_process_removed_is_no_error(cache):
    entries = inventory.take(cache).entries
    shutil.rmtree(cache)
    assert inventory.remove(entries) == inventory.Removal()
    assert not cache.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_another_process_is_quicker_at_the_last_moment(cache, monkeypatch, kind):
    entry = by_kind(cache)[kind]
    real = removing.tempfile.mkdtemp

    def late(**options):
        shutil.rmtree(entry.path)
        return real(**options)

    monkeypatch.setattr(removing.tempfile, "mkdtemp", late)
    assert inventory.remove([entry]) == inventory.Removal()
    assert kind not in kinds(cache)


def test_an_empty_grave_that_another_process_clears_is_no_error(cache, monkeypatch):
    entry = by_kind(cache)["synthetic"]
    real = removing.tempfile.mkdtemp

    def robbed(**options):
        grave = real(**options)
        shutil.rmtree(grave)
        return grave

    monkeypatch.setattr(removing.tempfile, "mkdtemp", robbed)
    assert inventory.remove([entry]) == inventory.Removal()
    assert by_kind(cache)["synthetic"] == entry  # for whoever comes next


def test_several_clear_at_once(cache):
    paths = {entry.path for entry in inventory.take(cache).entries}
    barrier = threading.Barrier(4)

    def clear(_):
        barrier.wait()
        return inventory.clear(cache, KINDS)

    with ThreadPoolExecutor(4) as pool:
        removals = list(pool.map(clear, range(4)))
    assert [removal.kept for removal in removals] == [[]] * 4
    assert paths <= {path for removal in removals for path in removal.removed}
    assert inventory.take(cache) == inventory.Inventory()


def test_a_cache_where_nothing_can_be_written(cache, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(removing.tempfile, "mkdtemp", refuse)
    before = inventory.take(cache)
    removal = inventory.clear(cache, KINDS)
    assert removal.removed == []
    assert removal.kept == [(entry.path, "Permission denied") for entry in before.entries]
    assert kinds(cache) == list(KINDS)


def test_a_drawer_cleared_while_it_is_filled_is_filled_all_the_same(tmp_path):
    generator = FakeGenerator(batch_size=3)
    drawer = Drawer(tmp_path, generator, 5)
    images, _, made = drawer.fetch(NEED, lambda _: inventory.clear(tmp_path))
    assert made == 8
    whole, _, _ = Drawer(tmp_path / "other", generator, 5).fetch(NEED)
    assert np.array_equal(images, whole)
