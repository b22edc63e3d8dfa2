"""The coordinate-wise median against NumPy."""

import numpy as np
import pytest

NAMES = ("layer.weight", "layer.bias")


@pytest.mark.parametrize("clients", [1, 2, 5, 6])
def test_it_is_the_median_of_each_coordinate(begin, clients):
    started = begin(strategy="fedmedian", clients=clients, sizes=[10_000] + [1] * (clients - 1))
    result = started.aggregate(started.reply(k) for k in reversed(range(clients)))
    for name in NAMES:
        values = [started.model(k)[name].numpy().astype(np.float64) for k in range(clients)]
        found = result.arrays[name].numpy()
        assert found.dtype == np.float32
        assert np.array_equal(found, np.median(values, axis=0).astype(np.float32))
    # 0, 10, 20, …: the value in the middle, or the lower of the two.
    assert result.arrays["steps"].numpy() == 10 * ((clients - 1) // 2)
    people = result.report.participants
    assert [p.weight for p in people] == pytest.approx([1 / clients] * clients)


def test_fewer_than_half_cannot_move_it_beyond_the_others(begin):
    started = begin(strategy="fedmedian", clients=5)
    far = {
        k: started.record(
            np.full((2, 3), 1e6 * (-1) ** k, np.float32),
            np.full(3, 1e6, np.float32),
            np.array(2**62, np.int64),
        )
        for k in (1, 4)
    }
    result = started.aggregate(started.reply(k, far.get(k)) for k in range(5))
    for name in NAMES:
        honest = [started.model(k)[name].numpy() for k in (0, 2, 3)]
        found = result.arrays[name].numpy()
        assert (found >= np.min(honest, axis=0)).all()
        assert (found <= np.max(honest, axis=0)).all()
    assert result.arrays["steps"].numpy() == 30
