"""The average against float64, and replies that must not enter it."""

import io
import tracemalloc

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from fedeas_app.errors import UserError
from fedeas_app.strategies.updates import BadReplyError, Updates


def record(**arrays):
    return ArrayRecord({name: Array(array) for name, array in arrays.items()})


def models(count, seed=0):
    rng = np.random.default_rng(seed)
    return [
        record(
            w=rng.normal(size=(4, 5)).astype(np.float32),
            half=rng.normal(size=7).astype(np.float16),
            double=rng.normal(size=(2, 1, 2)),
            scalar=np.array(rng.normal(), np.float32),
            empty=np.zeros((0, 3), np.float32),
            steps=np.array(rng.integers(0, 1000), np.int64),
        )
        for _ in range(count)
    ]


def average(records, weights, order=None):
    with Updates(records[0]) as updates:
        order = range(len(records)) if order is None else order
        for k in order:
            updates.add(k, records[k])
        return updates.average({k: weights[k] for k in order})


def test_average_is_the_float64_sum_in_the_type_of_the_model():
    records, weights = models(9), np.random.default_rng(1).dirichlet(np.ones(9))
    merged = average(records, weights.tolist())
    assert list(merged) == list(records[0])
    for name in ("w", "half", "double", "scalar", "empty"):
        arrays = [r[name].numpy() for r in records]
        total = np.zeros(arrays[0].shape)
        for weight, array in zip(weights, arrays, strict=True):
            total = total + weight * array.astype(np.float64)
        result = merged[name].numpy()
        assert result.dtype == arrays[0].dtype
        assert result.shape == arrays[0].shape
        assert np.array_equal(result, total.astype(arrays[0].dtype))


def test_equal_models_average_to_themselves():
    one = models(1)[0]
    merged = average([one] * 7, [1 / 7] * 7)
    for name in ("w", "half", "scalar", "steps"):
        assert np.array_equal(merged[name].numpy(), one[name].numpy())


def test_bits_do_not_depend_on_the_order_of_arrival():
    records, weights = models(8), np.random.default_rng(2).dirichlet(np.ones(8)).tolist()
    expected = average(records, weights)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(8).tolist()
        merged = average(records, weights, order)
        assert all(merged[name].data == expected[name].data for name in merged)


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (np.int64, [3, 2**60, 5], 2**60),
        (np.int32, [-7, -3, -9], -3),
        (np.uint8, [200, 255, 0], 255),
        (np.bool_, [False, True, False], True),
    ],
)
def test_counters_keep_their_type_and_take_the_largest(dtype, values, expected):
    records = [record(w=np.zeros(2, np.float32), steps=np.array(v, dtype)) for v in values]
    steps = average(records, [0.2, 0.3, 0.5])["steps"].numpy()
    assert steps.dtype == dtype
    assert steps.shape == ()
    assert steps == expected


def nan(shape, value=np.nan):
    array = np.zeros(shape, np.float32)
    array.flat[-1] = value
    return array


GOOD = np.ones((2, 2), np.float32)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (record(v=GOOD), "names"),
        (record(w=GOOD, v=GOOD), "names"),
        (ArrayRecord(), "names"),
        (record(w=np.ones((2, 3), np.float32)), r"w is float32\[2, 3\], not float32\[2, 2\]"),
        (record(w=np.ones(4, np.float32)), r"w is float32\[4\], not float32\[2, 2\]"),
        (record(w=np.ones((2, 2))), r"w is float64\[2, 2\], not float32\[2, 2\]"),
        (record(w=nan((2, 2))), "w holds values that are not finite"),
        (record(w=nan((2, 2), np.inf)), "w holds values that are not finite"),
        (record(w=nan((2, 2), -np.inf)), "w holds values that are not finite"),
        (ArrayRecord({"w": Array("float32", (2, 2), "numpy.ndarray", b"")}), "w cannot be decoded"),
        (ArrayRecord({"w": Array("float32", (2, 2), "numpy.ndarray", b"??")}), "cannot be decoded"),
        (
            ArrayRecord({"w": Array("float32", (2, 2), "other", GOOD.tobytes())}),
            "cannot be decoded",
        ),
    ],
)
def test_a_model_that_does_not_fit_is_refused_and_leaves_no_trace(bad, reason):
    with Updates(record(w=GOOD)) as updates:
        updates.add(2, record(w=GOOD))
        with pytest.raises(BadReplyError, match=reason):
            updates.add(1, bad)
        updates.add(0, record(w=3 * GOOD))
        merged = updates.average({0: 0.5, 2: 0.5})
    assert np.array_equal(merged["w"].numpy(), 2 * GOOD)


@pytest.mark.parametrize("place", [0, 32_767, 32_768, 99_999])
def test_every_value_is_looked_at_and_a_bad_reply_is_written_over(place):
    sound, bad = np.full(100_000, 5, np.float32), np.ones(100_000, np.float32)
    bad[place] = np.inf
    with Updates(record(a=GOOD, w=sound)) as updates:
        updates.add(0, record(a=GOOD, w=sound))
        with pytest.raises(BadReplyError, match="w holds values that are not finite"):
            updates.add(1, record(a=7 * GOOD, w=bad))
        updates.add(2, record(a=3 * GOOD, w=3 * sound))
        merged = updates.average({0: 0.5, 2: 0.5})
    assert np.array_equal(merged["a"].numpy(), 2 * GOOD)
    assert np.array_equal(merged["w"].numpy(), 2 * sound)


def test_no_room_for_the_replies_is_told_in_a_sentence(monkeypatch, tmp_path):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("tempfile.SpooledTemporaryFile", lambda _: Full())
    with Updates(record(w=GOOD)) as updates, pytest.raises(UserError) as caught:
        updates.add(0, record(w=GOOD))
    assert str(caught.value) == (
        f"A round's replies do not fit into {tmp_path} (No space left on device); free some space "
        "there, or set TMPDIR to a directory with room."
    )


def test_names_must_come_in_the_order_of_the_model():
    with Updates(record(a=GOOD, b=GOOD)) as updates, pytest.raises(BadReplyError, match="names"):
        updates.add(0, record(b=GOOD, a=GOOD))


def test_memory_does_not_grow_with_the_number_of_replies(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    size, count = 1_000_000, 200  # 4 MB each, 800 MB in all
    tracemalloc.start()
    with Updates(record(w=np.zeros(size, np.float32))) as updates:
        for k in range(count):
            updates.add(k, record(w=np.full(size, k, np.float32)))
        weights = dict.fromkeys(range(count), 1 / count)
        merged, spread = updates.average(weights), updates.spread(weights, ["w"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.allclose(merged["w"].numpy(), 99.5)
    assert spread.mean_square == pytest.approx(99.5**2 * size)
    assert peak < 40e6  # the mean and the model in float64, and what the file has in memory
    assert not list(tmp_path.iterdir())


def by_hand(start, records, weights, names):
    """Δ_k and Δ̄ as long float64 vectors."""

    def flat(one):
        return np.concatenate([one[n].numpy().ravel().astype(np.float64) for n in names])

    deltas = [flat(one) - flat(start) for one in records]
    return deltas, sum(w * delta for w, delta in zip(weights, deltas, strict=True))


def test_bits_do_not_depend_on_the_number_of_cores(monkeypatch):
    rng = np.random.default_rng(3)
    start, *records = [
        record(w=rng.normal(size=100_001).astype(np.float32), b=rng.normal(size=3))
        for _ in range(6)
    ]
    weights, found = dict(enumerate(rng.dirichlet(np.ones(5)).tolist())), []
    for count in (1, 4):
        monkeypatch.setattr("fedeas_app.strategies.updates.cores", lambda count=count: count)
        with kept(start, records) as updates:
            found.append((updates.average(weights)["w"].data, updates.spread(weights, ["w", "b"])))
    assert found[0] == found[1]


@pytest.mark.parametrize("names", [["w"], ["w", "half", "double", "scalar", "empty"]])
def test_spread_is_measured_in_float64_over_the_arrays_named(names):
    start, *records = models(6)
    weights = np.random.default_rng(1).dirichlet(np.ones(5)).tolist()
    deltas, mean = by_hand(start, records, weights, names)
    with Updates(start) as updates:
        for k in (3, 0, 4, 1, 2):
            updates.add(k, records[k])
        spread = updates.spread(dict(enumerate(weights)), names)
    assert spread.mean_square == pytest.approx(mean @ mean)
    cosines, drifts = spread.cosines(), spread.drifts()
    for k, delta in enumerate(deltas):
        length = np.linalg.norm(delta) * np.linalg.norm(mean)
        assert cosines[k] == pytest.approx(delta @ mean / length)
        assert drifts[k] == pytest.approx(((delta - mean) ** 2).sum() / (mean @ mean))


def test_models_that_did_not_move_have_no_angle_and_no_drift():
    one = models(1)[0]
    with Updates(one) as updates:
        for k in range(2):
            updates.add(k, one)
        spread = updates.spread({0: 0.5, 1: 0.5}, ["w", "double"])
    assert spread.cosines() == {0: 0.0, 1: 0.0}
    assert spread.drifts() is None


def test_only_the_partitions_that_weigh_are_looked_at():
    start, *records = models(4)
    with Updates(start) as updates:
        for k, one in enumerate(records):
            updates.add(k, one)
        spread = updates.spread({0: 0.25, 2: 0.75}, ["w"])
    assert list(spread.squares) == list(spread.products) == [0, 2]


def kept(start, records):
    updates = Updates(start)
    for k, one in enumerate(records):
        updates.add(k, one)
    return updates


def moved(start, one, name):
    return one[name].numpy().astype(np.float64) - start[name].numpy().astype(np.float64)


def test_norms_are_those_of_the_updates_over_the_arrays_named():
    start, *records = models(4)
    with kept(start, records) as updates:
        norms = updates.norms(["w", "double"])
    for k, one in enumerate(records):
        both = [moved(start, one, name).ravel() for name in ("w", "double")]
        assert norms[k] == pytest.approx(np.linalg.norm(np.concatenate(both)))


def test_a_clipped_update_is_scaled_in_the_arrays_named_and_nowhere_else():
    start, *records = models(4)
    with kept(start, records) as updates:
        updates.clip({0: 0.25, 1: 1.0, 2: 0.0}, ["w", "double"])
        alone = [updates.average({k: 1.0}) for k in range(3)]
        norms = updates.norms(["w", "double"])
        spread = updates.spread({0: 0.5, 2: 0.5}, ["w"])
    for name in ("w", "double"):
        at = start[name].numpy().astype(np.float64)
        expected = (at + 0.25 * moved(start, records[0], name)).astype(at.dtype)
        assert np.allclose(alone[0][name].numpy(), expected, rtol=1e-6)
        assert np.array_equal(alone[2][name].numpy(), start[name].numpy())
    for name in ("half", "scalar", "steps"):
        assert np.array_equal(alone[0][name].numpy(), records[0][name].numpy())
    assert all(alone[1][name].data == records[1][name].data for name in alone[1])
    assert norms[2] == 0
    assert spread.squares[0] == pytest.approx((moved(start, records[0], "w") ** 2).sum() / 16)


@pytest.mark.parametrize("block", [1, 7, 2**21])
def test_a_rule_sees_all_clients_side_by_side_whatever_the_block(monkeypatch, block):
    monkeypatch.setattr("fedeas_app.strategies.updates._BLOCK", block)
    start, *records = models(5)
    with kept(start, records) as updates:
        updates.clip({2: 0.5}, ["w"])
        merged = updates.combine([0, 2, 3], lambda values: values.max(axis=0))
    at = start["w"].numpy().astype(np.float64)
    clipped = [at + (0.5 if k == 2 else 1) * moved(start, records[k], "w") for k in (0, 2, 3)]
    assert list(merged) == list(start)
    assert np.allclose(merged["w"].numpy(), np.max(clipped, axis=0), rtol=1e-6)
    assert merged["half"].numpy().dtype == np.float16
    assert merged["empty"].numpy().shape == (0, 3)


def test_of_counters_a_rule_gets_the_lower_median():
    values = [2**60 + 1, 3, 2**62, 7]
    records = [record(steps=np.array(v, np.int64)) for v in values]
    with kept(records[0], records) as updates:
        steps = updates.combine(range(4), lambda block: block.mean(axis=0))["steps"].numpy()
    assert (steps, steps.dtype, steps.shape) == (7, np.int64, ())


def test_who_weighs_nothing_has_no_say_in_counters():
    records = [record(steps=np.array(v, np.int64)) for v in (3, 2**62)]
    with kept(records[0], records) as updates:
        assert updates.average({0: 1.0, 1: 0.0})["steps"].numpy() == 3


def test_memory_of_a_rule_does_not_grow_with_the_number_of_clients(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    size, count = 1_000_000, 50
    with Updates(record(w=np.zeros(size, np.float32))) as updates:
        for k in range(count):
            updates.add(k, record(w=np.full(size, k, np.float32)))
        tracemalloc.start()
        merged = updates.combine(range(count), lambda block: np.median(block, axis=0))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert np.all(merged["w"].numpy() == 24.5)
    assert peak < 100e6  # all 50 models in float64 are 400 MB
