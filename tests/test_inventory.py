"""The inventory sees what is there, believes no damage, and removes nothing that is not its own."""

import os
import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from fake_generator import FakeGenerator
from filelock import FileLock
from full_cache import NEED, copy_of, fill, flip, only

from fedeas_app import inventory
from fedeas_app.errors import UserError
from fedeas_app.generators.cache import Drawer
from fedeas_app.inventory import KINDS

DAMAGES = {
    "datasets": "datasets/*/images.npy",
    "partitions": "partitions/*/indices.npy",
    "generators": "generators/*/unet/*.safetensors",
    "synthetic": "synthetic/*/*/*.safetensors",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("made") / "cache")


@pytest.fixture
def cache(made, tmp_path):
    return copy_of(made, tmp_path / "cache")


def tree(directory):
    """Everything below a directory, with what would betray a write."""
    paths = [directory, *sorted(directory.rglob("*"))]
    return [(path, path.lstat().st_mtime_ns, path.lstat().st_size) for path in paths]


def kinds(cache):
    return [entry.kind for entry in inventory.take(cache).entries]


def by_kind(cache):
    return {entry.kind: entry for entry in inventory.take(cache).entries}


# --- listing ---


def test_every_kind_is_listed_with_what_it_is(cache):
    found = inventory.take(cache)
    assert [entry.kind for entry in found.entries] == list(KINDS)
    assert found.foreign == []  # lock files are nobody's business
    assert [entry.what for entry in found.entries] == [
        "digits train: 1,437 images of 8x8",
        "1,437 images for 4 clients",
        "unpacked generator 'digits'",
        "8 images by 'fake', cpu torch-2",
    ]
    assert all(entry.finished and entry.path.name == entry.key for entry in found.entries)
    assert re.fullmatch("[0-9a-f]{12}", found.entries[0].short)
    assert re.fullmatch("digits-[0-9a-f]{12}", found.entries[2].short)


def test_sizes_and_times_are_those_of_the_files(cache):
    for entry in inventory.take(cache).entries:
        files = [path for path in entry.path.rglob("*") if path.is_file()]
        assert entry.size == sum(path.stat().st_size for path in files)
        assert entry.written == max(path.stat().st_mtime for path in [entry.path, *files])
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


def test_an_older_drawer_says_what_it_can(cache):
    only(cache, "synthetic/*/*/drawer.json").unlink()
    assert by_kind(cache)["synthetic"].what == "8 images by a generator not recorded"
    assert inventory.verify(cache) == []


def test_what_cannot_be_described_is_listed_all_the_same(cache):
    only(cache, "datasets/*/meta.json").write_text("[]")
    only(cache, "partitions/*/sizes.npy").unlink()
    what = {kind: entry.what for kind, entry in by_kind(cache).items()}
    assert what["datasets"] == what["partitions"] == "not readable"


def test_a_drawer_says_nothing_about_labels(cache):
    text = only(cache, "synthetic/*/*/drawer.json").read_text()
    assert sorted(re.findall(r'"(\w+)":', text)) == ["digest", "generator", "machine"]


# --- damage ---


def empty(path):
    path.write_bytes(b"")


# A shard that is gone is no damage: its images are made when they are needed.
@pytest.mark.parametrize(
    ("kind", "harm"),
    [(kind, harm) for kind in KINDS for harm in (flip, empty, Path.unlink)
     if (kind, harm) != ("synthetic", Path.unlink)],
)  # fmt: skip
def test_damage_of_each_kind_is_found_and_repaired(cache, made, kind, harm):
    path = only(cache, DAMAGES[kind])
    harm(path)
    (damage,) = inventory.verify(cache)
    assert damage.entry.kind == kind
    assert damage.path == (path if kind == "synthetic" else damage.entry.path)
    assert damage.reason
    removal = inventory.repair([damage])
    assert removal.removed == [damage.path]
    assert removal.kept == []
    assert not damage.path.exists()
    assert inventory.verify(cache) == []
    fill(cache)  # made anew
    assert path.read_bytes() == only(made, DAMAGES[kind]).read_bytes()


@pytest.mark.parametrize(
    "pattern", ["datasets/*/labels.npy", "partitions/*/sizes.npy", "partitions/*/digest.txt",
                "generators/*/sha256.json", "synthetic/*/*/drawer.json"],
)  # fmt: skip
def test_damage_of_the_smaller_files_is_found(cache, pattern):
    path = only(cache, pattern)
    flip(path) if path.suffix == ".npy" else path.write_text("{")
    assert len(inventory.verify(cache)) == 1


def test_a_drawer_keeps_its_whole_shards(cache):
    whole = set(cache.glob("synthetic/*/*/*.safetensors"))
    broken = min(whole)
    flip(broken)
    inventory.repair(inventory.verify(cache))
    assert set(cache.glob("synthetic/*/*/*.safetensors")) == whole - {broken}


def test_what_was_mended_meanwhile_is_not_removed(cache):
    path = only(cache, DAMAGES["partitions"])
    content = path.read_bytes()
    flip(path)
    damages = inventory.verify(cache)
    path.write_bytes(content)
    assert inventory.repair(damages) == inventory.Removal()
    assert path.exists()


# --- clearing ---


def test_everything_goes_and_comes_again(cache, made):
    size = inventory.take(cache).size
    removal = inventory.clear(cache)
    assert len(removal.removed) == 4
    assert removal.size == size
    left = [path for path in cache.rglob("*") if path.is_file()]
    assert all(path.name.endswith(".lock") for path in left)
    assert inventory.take(cache) == inventory.Inventory()
    fill(cache)
    assert kinds(cache) == list(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_goes(cache, kind):
    inventory.clear(cache, [kind])
    assert kinds(cache) == [other for other in KINDS if other != kind]


def test_only_what_is_old_goes(cache):
    old = by_kind(cache)["partitions"].path
    for path in [old, *old.rglob("*")]:
        os.utime(path, (time.time() - 3 * 86400,) * 2)
    assert inventory.select(cache, older_than_days=4) == []
    inventory.clear(cache, older_than_days=2)
    assert kinds(cache) == ["datasets", "generators", "synthetic"]


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
    monkeypatch.setattr(inventory, "_PATIENCE", 0.05)
    entry = by_kind(cache)["datasets"]
    with FileLock(entry.path.parent / f".{entry.key}.lock"):
        removal = inventory.clear(cache)
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
    assert len(inventory.clear(cache).removed) == 4
    assert all(path.read_text() == "keep" for path in foreign)


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_that_is_a_link_is_not_followed(cache, tmp_path, kind):
    entry = by_kind(cache)[kind]
    outside = tmp_path / "outside"
    shutil.move(entry.path, outside)
    entry.path.symlink_to(outside)
    before = tree(outside)
    assert inventory.take(cache).foreign == [entry.path]
    inventory.clear(cache)
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
    real = inventory.tempfile.mkdtemp

    def late(**options):
        shutil.rmtree(entry.path)
        return real(**options)

    monkeypatch.setattr(inventory.tempfile, "mkdtemp", late)
    assert inventory.remove([entry]) == inventory.Removal()
    assert kind not in kinds(cache)


def test_several_clear_at_once(cache):
    paths = {entry.path for entry in inventory.take(cache).entries}
    barrier = threading.Barrier(4)

    def clear(_):
        barrier.wait()
        return inventory.clear(cache)

    with ThreadPoolExecutor(4) as pool:
        removals = list(pool.map(clear, range(4)))
    assert [removal.kept for removal in removals] == [[]] * 4
    assert paths <= {path for removal in removals for path in removal.removed}
    assert inventory.take(cache) == inventory.Inventory()


def test_entries_that_go_while_they_are_listed(cache, monkeypatch):
    gone = by_kind(cache)["partitions"].path
    real = inventory._measure

    def late(path):
        shutil.rmtree(gone, ignore_errors=True)
        return real(path)

    monkeypatch.setattr(inventory, "_measure", late)
    assert kinds(cache) == ["datasets", "generators", "synthetic"]


def test_a_cache_where_nothing_can_be_written(cache, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(inventory.tempfile, "mkdtemp", refuse)
    before = inventory.take(cache)
    removal = inventory.clear(cache)
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
