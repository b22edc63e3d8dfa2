"""Updates in fewer bits: against numpy by hand, and over rounds."""

import numpy as np
import pytest
import torch
from fake_grid import FakeGrid
from flwr.app import Array, ArrayRecord, Context, RecordDict
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors.torch import load_file

import server_app
from fedeas_app.compression import compressed, decompressed, without_residual

METHODS = ("fp16", "int8")
floats = st.floats(-1e4, 1e4, width=32)
updates = arrays(np.float32, array_shapes(min_dims=1, max_dims=3, max_side=5), elements=floats)


def record(**values):
    return ArrayRecord({name: Array(value) for name, value in values.items()})


def there_and_back(w_t, w, method, kept=None):
    sent = record(w=w_t)
    wire, residual = compressed(record(w=w), sent, ["w"], kept or {}, method)
    return decompressed(wire, sent, ["w"], method)["w"].numpy(), wire, residual


@given(updates)
def test_halves_are_numpys_halves(delta):
    back, wire, residual = there_and_back(np.zeros_like(delta), delta, "fp16")
    np.testing.assert_array_equal(back, delta.astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(residual["residual/w"].numpy(), delta - back)
    assert wire["w"].numpy().nbytes == delta.nbytes // 2


@given(updates)
def test_bytes_are_off_by_half_a_step_of_each_arrays_own_scale(delta):
    back, wire, residual = there_and_back(np.zeros_like(delta), delta, "int8")
    step = np.abs(delta).max() / 127
    assert np.abs(back - delta).max() <= 0.5001 * step
    np.testing.assert_array_equal(residual["residual/w"].numpy(), delta - back)
    assert wire["w"].numpy().nbytes == delta.size + 4


def test_bytes_by_hand():
    delta = np.float32([[12.7, -6.35], [0.04, 0.06]])
    back, wire, _ = there_and_back(np.zeros((2, 2), np.float32), delta, "int8")
    steps = wire["w"].numpy()[4:].view(np.int8)
    assert steps.tolist() == [127, -64, 0, 1]  # a half goes to the even step
    np.testing.assert_allclose(back, [[12.7, -6.4], [0, 0.1]], rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_no_update_is_none(method):
    w_t = np.float32([1, 2, 3])
    back, _, residual = there_and_back(w_t, w_t, method)
    np.testing.assert_array_equal(back, w_t)
    assert not residual["residual/w"].any()


@pytest.mark.parametrize("method", METHODS)
@given(rounds=st.lists(arrays(np.float32, 6, elements=floats), min_size=2, max_size=6))
def test_what_was_lost_is_made_good_in_the_next_rounds(method, rounds):
    """The sum of what arrived and of what is still kept is the sum of the updates."""
    zero, arrived, kept = np.zeros(6, np.float32), np.zeros(6), {}
    for delta in rounds:
        back, _, kept = there_and_back(zero, delta, method, kept)
        arrived += back
    total = arrived + kept["residual/w"].numpy()
    np.testing.assert_allclose(total, np.sum(rounds, axis=0, dtype=float), atol=1e-2, rtol=1e-5)


def test_what_a_half_cannot_hold_comes_later():
    delta = np.float32([1e5])
    zero = np.zeros(1, np.float32)
    first, _, kept = there_and_back(zero, delta, "fp16")
    then, _, kept = there_and_back(zero, zero, "fp16", kept)
    assert first[0] == 65504
    assert first[0] + then[0] + kept["residual/w"].item() == 1e5


@pytest.mark.parametrize("method", METHODS)
def test_buffers_and_names_stay_as_they_are(method):
    trained = record(mean=np.float32([1.5]), w=np.float32([2.0]), seen=np.array(7))
    sent = record(mean=np.float32([0.1]), w=np.float32([1.0]), seen=np.array(3))
    wire, _ = compressed(trained, sent, ["w"], {}, method)
    back = decompressed(wire, sent, ["w"], method)
    assert list(wire) == list(back) == ["mean", "w", "seen"]
    assert back["mean"].numpy() == np.float32(1.5)
    assert back["seen"].numpy() == 7
    assert back["w"].numpy() == pytest.approx(2.0)


def test_none_changes_nothing_and_keeps_nothing():
    trained, sent = record(w=np.float32([2.0])), record(w=np.float32([1.0]))
    wire, residual = compressed(trained, sent, ["w"], {}, "none")
    assert (wire, residual) == (trained, {})
    assert decompressed(wire, sent, ["w"], "none") is wire


def test_what_the_algorithm_kept_is_told_apart():
    one, other = torch.ones(1), torch.zeros(1)
    assert without_residual({"w": one, "residual/w": other}) == {"w": one}


@pytest.mark.parametrize(
    ("method", "value", "message"),
    [
        (
            "int8",
            np.zeros(2, np.uint8),
            r"w cannot be decompressed: it is uint8\[2\], not uint8\[6\]",
        ),
        ("int8", np.zeros(6, np.int8), r"it is int8\[6\], not uint8\[6\]"),
        ("fp16", np.zeros(2, np.float32), r"it is float32\[2\], not float16\[2\]"),
        ("fp16", np.zeros(3, np.float16), r"it is float16\[3\], not float16\[2\]"),
    ],
)
def test_what_is_no_update_is_refused(method, value, message):
    with pytest.raises(ValueError, match=message):
        decompressed(record(w=value), record(w=np.zeros(2, np.float32)), ["w"], method)


def test_missing_arrays_are_refused():
    with pytest.raises(ValueError, match="names"):
        decompressed(ArrayRecord(), record(w=np.zeros(2, np.float32)), ["w"], "int8")


@pytest.mark.parametrize("scale", [np.nan, np.inf, 3e38])
def test_a_bad_scale_gives_values_that_are_not_finite(scale):
    """They are refused where all models are."""
    wire = np.concatenate([np.float32([scale]).view(np.uint8), np.uint8([127, 0])])
    back = decompressed(record(w=wire), record(w=np.zeros(2, np.float32)), ["w"], "int8")
    assert not np.isfinite(back["w"].numpy()).all()


def run(settings):
    grid = FakeGrid(settings)
    server_app.main(grid, Context(1, 0, {}, RecordDict(), settings.to_flat()))
    replies = [reply for reply in grid.replies if "arrays" in reply.content.array_records]
    arrays = [array for reply in replies for array in reply.content["arrays"].values()]
    return load_file(settings.output_path / settings.run_name / "model.safetensors"), arrays


def test_runs_send_fewer_bytes_and_come_to_nearly_the_same_model(configure):
    models, sizes = {}, {}
    for method in ("none", *METHODS):
        models[method], sent = run(
            configure(compression=method, run_name=method, train_samples=120)
        )
        sizes[method] = sum(len(array.data) for array in sent)
    start = sizes["none"]
    assert 0.49 < sizes["fp16"] / start < 0.53
    assert 0.24 < sizes["int8"] / start < 0.29
    for method, largest in (("fp16", 1e-3), ("int8", 2e-2)):
        for name, value in models["none"].items():
            assert (models[method][name] - value).abs().max() < largest
