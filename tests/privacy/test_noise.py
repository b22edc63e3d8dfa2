"""Noise has the right scale and comes from where it should."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from scipy import stats

from fedeas_app.privacy import noise
from fedeas_app.settings import Settings

SEEDED = Settings.parse({"noise-source": "seed", "seed": 3})


def test_the_systems_noise_is_normal():
    values = noise.system_normal(200_000)
    # Standard errors: 1/√n of the mean, 1/√(2n) of the deviation.
    assert abs(values.mean()) < 6 / 200_000**0.5
    assert abs(values.std() - 1) < 6 / 400_000**0.5
    assert stats.kstest(values, "norm").pvalue > 1e-6
    assert np.isfinite(values).all()


def test_the_systems_noise_does_not_repeat_and_touches_no_global_state():
    np.random.seed(0)  # noqa: NPY002  # the state that must not be used
    first = noise.system_normal(8)
    np.random.seed(0)  # noqa: NPY002  # the same
    assert not np.array_equal(first, noise.system_normal(8))


def test_the_ends_of_the_scale_are_finite(monkeypatch):
    for byte in (b"\x00", b"\xff"):
        monkeypatch.setattr("os.urandom", lambda count, byte=byte: byte * count)
        assert np.isfinite(noise.system_normal(3)).all()
        assert abs(noise.system_normal(1)[0]) > 7


def test_the_system_is_the_default_and_the_seed_repeats():
    assert noise.source(Settings.parse({}), "server", 1) is noise.system_normal
    first, again = (noise.source(SEEDED, "server", 1)(5) for _ in range(2))
    assert np.array_equal(first, again)
    for other in (("server", 2), ("client", 1, 0), ("client", 1, 1)):
        assert not np.array_equal(first, noise.source(SEEDED, *other)(5))


@pytest.mark.parametrize("deviation", [0.01, 3.0])
def test_the_arrays_named_get_noise_of_the_deviation_and_no_other(deviation):
    rng = np.random.default_rng(0)
    arrays = {
        "w": rng.normal(size=(200, 300)).astype(np.float32),
        "statistics": np.ones(4, np.float32),
        "steps": np.array(7, np.int64),
    }
    record = ArrayRecord({name: Array(values) for name, values in arrays.items()})
    found = noise.with_noise(record, ["w"], deviation, np.random.default_rng(1).standard_normal)
    added = found["w"].numpy().astype(np.float64) - arrays["w"]
    assert list(found) == list(arrays)
    assert found["w"].numpy().dtype == np.float32
    assert added.std() == pytest.approx(deviation, rel=6 / (2 * 60_000) ** 0.5)
    assert abs(added.mean()) < 6 * deviation / 60_000**0.5
    for name in ("statistics", "steps"):
        assert np.array_equal(found[name].numpy(), arrays[name])
