"""A cache with one entry of each kind, made by the code that makes them in a run."""

import os
import shutil
import time
from pathlib import Path

import numpy as np
import torch
from fake_generator import FakeGenerator

from fedeas_app import data, inventory
from fedeas_app.client_state import Address, ClientState
from fedeas_app.generators import pretrained
from fedeas_app.generators.cache import Drawer
from fedeas_app.generators.scheduler_memo import remembered
from fedeas_app.settings import Settings

NEED = np.array([3, 0, 5])  # in shards of 7 images and 1
_RUN = "0" * 31 + "a"


def fill(cache: Path) -> Path:
    """Decode, partition, unpack, generate and keep; what is there already is left as it is."""
    settings = Settings.parse({"dataset": "digits", "cache-dir": str(cache)})
    train = data.load_split(settings, "train", verify=True)
    data.partition(train.labels, 4, settings)
    pretrained.unpack("digits", cache / "generators")
    remembered(cache, {"sampler": "ddim", "steps": 1000}, lambda: ["DDIMScheduler", {}])
    Drawer(cache, FakeGenerator(), 5, "cpu torch-2").fetch(NEED)
    for client in (2, 11):
        state = ClientState(cache, Address(_RUN, 0), client)
        if not (cache / "client-states" / _RUN / f"{client}-1.safetensors").exists():
            state.save(1, {"c": torch.arange(3.0)})
    return cache


def copy_of(cache: Path, target: Path) -> Path:
    """Copy it, times included, to be damaged."""
    return Path(shutil.copytree(cache, target, symlinks=True))


def only(cache: Path, pattern: str) -> Path:
    """Return the first path of a pattern such as ``partitions/*/sizes.npy``."""
    return min(path for path in cache.glob(pattern) if not path.name.startswith("."))


def flip(path: Path) -> None:
    """Change the last bit of a file."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def tree(directory):
    """Everything below a directory, with what would betray a write."""
    paths = [directory, *sorted(directory.rglob("*"))]
    return [(path, path.lstat().st_mtime_ns, path.lstat().st_size) for path in paths]


def kinds(cache):
    return [entry.kind for entry in inventory.take(cache).entries]


def by_kind(cache):
    return {entry.kind: entry for entry in inventory.take(cache).entries}


def age(directory, days):
    """Set the times of a directory and of all in it back."""
    then = time.time() - days * 86400
    for path in [directory, *directory.rglob("*")]:
        os.utime(path, (then, then))
