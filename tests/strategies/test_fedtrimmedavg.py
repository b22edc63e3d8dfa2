"""The trimmed mean against SciPy, and rounds too small for it."""

import numpy as np
import pytest
from scipy import stats

from fedeas_app.errors import UserError

NAMES = ("layer.weight", "layer.bias")


@pytest.mark.parametrize(("clients", "beta"), [(5, 0.2), (6, 0.49), (9, 0.25), (3, 0.34)])
def test_it_is_scipys_trimmed_mean_of_each_coordinate(begin, clients, beta):
    sizes = [10_000] + [1] * (clients - 1)
    started = begin(strategy="fedtrimmedavg", clients=clients, trim_fraction=beta, sizes=sizes)
    result = started.aggregate(started.reply(k) for k in reversed(range(clients)))
    for name in NAMES:
        values = [started.model(k)[name].numpy().astype(np.float64) for k in range(clients)]
        expected = stats.trim_mean(np.stack(values), beta, axis=0)
        found = result.arrays[name].numpy()
        assert found.dtype == np.float32
        assert np.allclose(found, expected, rtol=1e-6)
        assert not np.allclose(found, np.mean(values, axis=0), rtol=1e-3)


def test_one_far_value_at_either_end_is_left_out(begin):
    started = begin(strategy="fedtrimmedavg", clients=5)
    values = [0.0, 1.0, 2.0, 6.0, 1e30]
    models = [
        started.record(
            np.full((2, 3), v, np.float32), np.full(3, -v, np.float32), np.array(k, np.int64)
        )
        for k, v in enumerate(values)
    ]
    result = started.aggregate(started.reply(k, models[k]) for k in range(5))
    assert np.allclose(result.arrays["layer.weight"].numpy(), 3.0)
    assert np.allclose(result.arrays["layer.bias"].numpy(), -3.0)


@pytest.mark.parametrize(
    ("clients", "beta", "words"),
    [
        (9, 0.1, r"trim-fraction is 0.1, which leaves out none of the 9 clients .* 0.112 or more"),
        (4, 0.2, r"none of the 4 clients .* set it to 0.25 or more"),
        (3, 0.333, r"none of the 3 clients .* set it to 0.334 or more"),
        (5, 1e-300, r"trim-fraction is 1e-300, .* set it to 0.2 or more"),
        (2, 0.4, r"none of the 2 clients .* have at least 3"),
    ],
)
def test_it_is_refused_where_it_would_be_a_plain_mean(begin, clients, beta, words):
    with pytest.raises(UserError, match=words):
        begin(strategy="fedtrimmedavg", clients=clients, trim_fraction=beta)


def test_a_round_with_too_few_replies_to_trim_does_not_count(begin):
    started = begin(strategy="fedtrimmedavg", clients=5)
    result = started.aggregate([started.reply(k) for k in range(4)])
    assert result.arrays is None
    assert result.report.failures[0] == "its reply is one of 4, but the round needs 5."
