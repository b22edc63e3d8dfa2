"""Generators small enough to be trained by several clients in a moment."""

import pytest
from micro_preset import MICRO

from fedeas_app.generators import network


@pytest.fixture(autouse=True)
def _tiny_is_micro(monkeypatch):
    """Let the configuration name a network of a few thousand weights."""
    monkeypatch.setitem(network.PRESETS, "tiny", MICRO)


@pytest.fixture
def job(configure):
    """Return settings of a run that trains its generator, and nothing but that."""

    def make(name="run", **keys):
        small = {
            "policy": "fedeas", "generator": "federated", "generator_only": True,
            "generator_rounds": 3, "generator_epochs": 1, "generator_batch_size": 64,
            "generator_samples_every": 0, "generator_checked": 0, "sampler_steps": 2, "beta": 2.0,
            "rounds": 1, "run_name": name, "train_samples": 120, "num_clients": 3,
        }  # fmt: skip
        return configure(**small | keys)

    return make


@pytest.fixture
def whole(job):
    """Return settings of a run that goes on with the classifier."""

    def make(name="run", **keys):
        return job(name, **{"generator_only": False} | keys)

    return make
