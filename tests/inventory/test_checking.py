"""No damage is believed, and repairing removes the damaged alone."""

from pathlib import Path

import pytest
from full_cache import fill, flip, only

from fedeas_app import inventory
from fedeas_app.inventory import KINDS

DAMAGES = {
    "datasets": "datasets/*/images.npy",
    "partitions": "partitions/*/indices.npy",
    "generators": "generators/*/unet/*.safetensors",
    "schedulers": "schedulers/*/description.json",
    "synthetic": "synthetic/*/*/*.safetensors",
    "client-states": "client-states/*/*.safetensors",
}
SINGLY = ("synthetic", "client-states")  # kinds whose files are damaged and removed one by one


def shorten(path):
    path.write_bytes(path.read_bytes()[:-1])


def empty(path):
    path.write_bytes(b"")


# A shard that is gone is no damage: its images are made when they are needed. Nor is a client's
# state, which has no checksum either.
@pytest.mark.parametrize(
    ("kind", "harm"),
    [(kind, harm) for kind in KINDS for harm in (flip, empty, shorten, Path.unlink)
     if (kind, harm) not in {("synthetic", Path.unlink), ("client-states", Path.unlink),
                             ("client-states", flip)}],
)  # fmt: skip
def test_damage_of_each_kind_is_found_and_repaired(cache, made, kind, harm):
    path = only(cache, DAMAGES[kind])
    harm(path)
    (damage,) = inventory.verify(cache)
    assert damage.entry.kind == kind
    assert damage.path == (path if kind in SINGLY else damage.entry.path)
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


@pytest.mark.parametrize("kind", SINGLY)
def test_a_foreign_file_beside_others_is_no_damage(cache, kind):
    foreign = only(cache, DAMAGES[kind]).with_name("mine.safetensors")
    foreign.write_text("keep")
    assert inventory.verify(cache) == []


def test_a_shard_that_cannot_be_read_is_damage(cache, monkeypatch):
    path = only(cache, DAMAGES["synthetic"])
    real = Path.read_bytes

    def read_bytes(self):
        if self == path:
            raise OSError(5, "Input/output error")
        return real(self)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    (damage,) = inventory.verify(cache)
    assert damage.path == path
    assert "Input/output error" in damage.reason


def test_what_was_mended_meanwhile_is_not_removed(cache):
    path = only(cache, DAMAGES["partitions"])
    content = path.read_bytes()
    flip(path)
    damages = inventory.verify(cache)
    path.write_bytes(content)
    assert inventory.repair(damages) == inventory.Removal()
    assert path.exists()
