"""What leaves a client: clipped, with noise of its own."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from fedeas_app.privacy.local import released
from fedeas_app.settings import Settings

NAMES = ["w", "b"]


def settings(**keys):
    local = {"privacy": "local", "clip-norm": 2.0, "noise-multiplier": 0.5}
    return Settings.parse(local | {key.replace("_", "-"): value for key, value in keys.items()})


def record(w, b, steps):
    arrays = {"w": w.astype(np.float32), "b": b.astype(np.float32), "steps": np.array(steps)}
    return ArrayRecord({name: Array(values) for name, values in arrays.items()})


@pytest.fixture
def models():
    rng = np.random.default_rng(0)
    sent = record(rng.normal(size=(150, 200)), rng.normal(size=200), 3)
    trained = record(rng.normal(size=(150, 200)), rng.normal(size=200), 4)
    return trained, sent


def update(new, old):
    parts = [new[n].numpy().astype(np.float64) - old[n].numpy() for n in NAMES]
    return np.concatenate([part.ravel() for part in parts])


def without_noise(size):
    return np.zeros(size)


def test_without_local_privacy_the_model_leaves_as_it_is(models):
    trained, sent = models
    assert released(trained, sent, NAMES, Settings.parse({}), without_noise) is trained


def test_the_update_is_scaled_to_the_norm(models):
    trained, sent = models
    found = update(released(trained, sent, NAMES, settings(), without_noise), sent)
    honest = update(trained, sent)
    assert np.linalg.norm(found) == pytest.approx(2.0, rel=1e-5)
    assert np.allclose(found, 2.0 * honest / np.linalg.norm(honest), atol=1e-6)


def test_a_short_update_keeps_its_length(models):
    trained, sent = models
    found = released(trained, sent, NAMES, settings(clip_norm=1e4), without_noise)
    for name in trained:
        assert np.allclose(found[name].numpy(), trained[name].numpy(), atol=1e-6)


def test_noise_is_the_multiplier_times_the_norm(models):
    trained, sent = models
    normal = np.random.default_rng(1).standard_normal
    noisy = update(released(trained, sent, NAMES, settings(), normal), sent)
    clean = update(released(trained, sent, NAMES, settings(), without_noise), sent)
    added = noisy - clean
    assert added.std() == pytest.approx(0.5 * 2.0, rel=6 / (2 * added.size) ** 0.5)
    assert abs(added.mean()) < 6 / added.size**0.5


def test_names_types_and_counters_stay(models):
    trained, sent = models
    found = released(trained, sent, NAMES, settings(), np.random.default_rng(1).standard_normal)
    assert list(found) == list(trained)
    for name in trained:
        assert found[name].numpy().dtype == trained[name].numpy().dtype
        assert found[name].numpy().shape == trained[name].numpy().shape
    assert found["steps"].numpy() == 4
