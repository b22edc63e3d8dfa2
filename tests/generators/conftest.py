"""A network of a few thousand weights, trained for a moment on a handful of images."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from micro_preset import MICRO

from fedeas_app.data import Split
from fedeas_app.generators import network
from fedeas_app.generators.ddpm import Ddpm
from fedeas_app.generators.trainer import Training
from fedeas_app.generators.training import train
from fedeas_app.settings import Settings


@pytest.fixture(scope="session", autouse=True)
def _micro_preset():
    """Add a preset that takes milliseconds where `tiny` takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(network.PRESETS, "micro", MICRO)
        yield


@pytest.fixture(scope="session")
def make_split():
    def make(count=12, shape=(8, 8, 1), classes=3):
        images = np.random.default_rng(0).integers(0, 256, (count, *shape), dtype=np.uint8)
        labels = np.arange(count) % classes
        return Split(images, labels, tuple(f"class {c}" for c in range(classes)), "some-digest")

    return make


@pytest.fixture(scope="session")
def trained(_micro_preset, make_split, tmp_path_factory):
    """The directory of a generator of three classes of 8x8 grey images; not to be changed."""
    target = tmp_path_factory.mktemp("trained") / "generator"
    return train(make_split(), Training("micro", 50, 6, 0, "cpu"), target)


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of that directory, to be damaged."""
    return Path(shutil.copytree(trained, tmp_path / "copied"))


_KEYS = {"name": "generator", "steps": "sampler-steps", "guidance": "guidance-scale",
         "precision": "generation-precision", "batch_size": "generation-batch-size",
         "cache": "cache-dir"}  # fmt: skip


@pytest.fixture(scope="session")
def ddpm(tmp_path_factory):
    """Return what opens a directory, with one cache for all unless a test names its own."""
    shared = tmp_path_factory.mktemp("shared")

    def make(directory, **changes):
        options = {"name": "mine", "sampler": "ddim", "steps": 3, "batch_size": 4, "device": "cpu"}
        options |= {"cache": str(shared)} | changes
        return Ddpm(directory, Settings.parse({_KEYS.get(k, k): v for k, v in options.items()}))

    return make


@pytest.fixture
def edit():
    """Return a function that changes keys of a JSON file; None removes one."""

    def change(path, **keys):
        content = json.loads(path.read_text()) | keys
        path.write_text(json.dumps({k: v for k, v in content.items() if v != "removed"}))

    return change
