"""One training step at a time: what is learnt, from what, and that nothing of it gets lost."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from fedeas_app.errors import UserError
from fedeas_app.generators.trainer import (
    Trainer,
    Training,
    learning_rate,
    make_noise_scheduler,
    num_labels,
)


def training(**changes):
    return Training(**{"preset": "micro", "steps": 40, "batch_size": 6, "device": "cpu", **changes})


@pytest.fixture(scope="module")
def make_trainer(make_split):
    def make(split=None, **changes):
        return Trainer(split or make_split(), training(**changes))

    return make


def weights(trainer):
    return torch.cat([part.detach().flatten().clone() for part in trainer.unet.parameters()])


def run(trainer, steps):
    return [float(trainer.advance()) for _ in range(steps)]


# --- what a step shows the network ---


def test_a_step_shows_images_with_their_labels(make_split, make_trainer):
    split = make_split(count=50)
    trainer = make_trainer(split, batch_size=20, label_dropout=0)
    known = {
        image.tobytes(): label for image, label in zip(split.images, split.labels, strict=True)
    }
    clean, noise, times, labels = trainer._batch(7)
    assert clean.shape == noise.shape == (20, 1, 8, 8)
    assert clean.dtype == noise.dtype == torch.float32
    pixels = np.rint((clean.numpy().transpose(0, 2, 3, 1) + 1) * 127.5).astype(np.uint8)
    assert [known[image.tobytes()] for image in pixels] == labels.tolist()
    assert len({image.tobytes() for image in pixels}) == 20  # none twice
    assert times.shape == (20,)
    assert 0 <= times.min() <= times.max() < 1000


def test_every_step_has_streams_of_its_own(make_trainer):
    one, other = make_trainer(), make_trainer()
    for a, b in zip(one._batch(3), other._batch(3), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(one._batch(3)[:3], one._batch(4)[:3], strict=True):
        assert not torch.equal(a, b)
    assert not torch.equal(one._batch(3)[1], make_trainer(seed=1)._batch(3)[1])


def test_noise_is_standard_normal_and_times_are_uniform(make_trainer):
    trainer = make_trainer(batch_size=12)
    batches = [trainer._batch(step) for step in range(100)]
    noise = torch.cat([batch[1].flatten() for batch in batches])  # 76,800 numbers
    times = torch.cat([batch[2] for batch in batches]).float()  # 1,200 numbers
    # Five standard errors each: 1/√n, √(2/n), and (1000/√12)/√n.
    assert abs(float(noise.mean())) < 5 / len(noise) ** 0.5
    assert abs(float(noise.var()) - 1) < 5 * (2 / len(noise)) ** 0.5
    assert abs(float(times.mean()) - 499.5) < 5 * (1000 / 12**0.5) / len(times) ** 0.5


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_share_of_null_labels_is_the_one_asked_for(make_trainer, share):
    dropping = make_trainer(batch_size=12, label_dropout=share)
    keeping = make_trainer(batch_size=12, label_dropout=0)
    dropped = torch.cat([dropping._batch(step)[3] for step in range(300)])
    kept = torch.cat([keeping._batch(step)[3] for step in range(300)])
    null = dropped == 3
    assert torch.equal(dropped[~null], kept[~null])
    # Five standard deviations of a binomial of 3,600 draws.
    assert abs(int(null.sum()) - 3600 * share) < 5 * (3600 * share * (1 - share)) ** 0.5


def test_without_label_dropout_there_is_no_null_label(make_split, make_trainer):
    assert make_trainer(label_dropout=0).unet.config.num_class_embeds == 3
    assert make_trainer(label_dropout=0.1).unet.config.num_class_embeds == 4
    assert num_labels(make_split(classes=5), training(label_dropout=0)) == 5
    keeping = make_trainer(label_dropout=0)
    assert max(int(keeping._batch(step)[3].max()) for step in range(20)) == 2


def test_folded_images_are_the_same_pixels(make_trainer):
    plain, folded = (make_trainer(unshuffle=u)._batch(2)[0].numpy() for u in (1, 2))
    blocks = plain.reshape(6, 1, 4, 2, 4, 2).transpose(0, 1, 3, 5, 2, 4)
    assert np.array_equal(folded, blocks.reshape(6, 4, 4, 4))


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_share_one_batch_out(make_trainer, processes):
    trainer = make_trainer(batch_size=12)
    whole = trainer._batch(5)
    for rank in range(processes):
        trainer._accelerator = SimpleNamespace(
            num_processes=processes, process_index=rank, device=torch.device("cpu")
        )
        for mine, all_of_it in zip(trainer._batch(5), whole, strict=True):
            assert torch.equal(mine, all_of_it[rank::processes])


def test_more_images_in_a_batch_than_there_are(make_split, make_trainer):
    trainer = make_trainer(make_split(count=3), batch_size=128)
    assert trainer.images_per_step == 3
    assert trainer._batch(0)[0].shape[0] == 3


def test_the_forward_process_ends_in_noise():
    scheduler = make_noise_scheduler()
    kept = scheduler.alphas_cumprod
    # Nichol and Dhariwal, equation 17: ᾱ_t = f(t) / f(0), f(t) = cos²((t/T + s) / (1 + s) · π/2).
    t = np.arange(1, 991) / 1000
    f = np.cos((np.concatenate([[0], t]) + 0.008) / 1.008 * np.pi / 2) ** 2
    assert np.allclose(kept[:990], f[1:] / f[0], atol=1e-4)
    assert kept[-1] < 1e-6


def test_the_first_step_is_algorithm_1(make_trainer):
    """The loss is that of ε against the guess for √ᾱ·x + √(1-ᾱ)·ε, by hand."""
    trainer = make_trainer()
    clean, noise, times, labels = trainer._batch(0)
    kept = trainer.scheduler.alphas_cumprod[times][:, None, None, None]
    with torch.no_grad():
        noisy = kept.sqrt() * clean + (1 - kept).sqrt() * noise
        guess = trainer.unet(noisy, times, class_labels=labels).sample
    expected = np.mean((guess.numpy().astype(np.float64) - noise.numpy()) ** 2)
    assert float(trainer.advance()) == pytest.approx(expected, rel=1e-5)


# --- the mean of the weights ---


def test_the_average_is_the_exponential_mean(make_trainer):
    """Decay d_n = min(0.999, 1 - n^-0.75) for the n-th set of weights, 0 for the first."""
    trainer = make_trainer(learning_rate=0.05)
    mean = None
    for n in range(1, 9):
        trainer.advance()
        new = weights(trainer).numpy().astype(np.float64)
        decay = min(0.999, 1 - n**-0.75)
        mean = new if n == 1 else decay * mean + (1 - decay) * new
    averaged = torch.cat([part.flatten() for part in trainer.averaged().parameters()]).detach()
    assert np.abs(new - mean).max() > 0.01
    assert np.allclose(averaged.numpy(), mean, rtol=0, atol=1e-6)


def test_the_average_is_a_copy(make_trainer):
    trainer = make_trainer()
    run(trainer, 2)
    before = weights(trainer)
    averaged = trainer.averaged()
    assert not averaged.training
    for part in averaged.parameters():
        part.data.zero_()
    assert torch.equal(weights(trainer), before)
    run(trainer, 1)


# --- the state ---


@given(st.integers(0, 4), st.integers(1, 3), st.sampled_from([0.0, 0.3]), st.sampled_from([1, 2]))
@settings(max_examples=8, deadline=None)
def test_after_restoring_the_next_steps_give_the_same_bits(
    make_trainer, before, after, label_dropout, unshuffle
):
    options = {"label_dropout": label_dropout, "unshuffle": unshuffle}
    trainer, other = make_trainer(**options), make_trainer(**options)
    run(trainer, before)
    arrays, rest = trainer.state()
    other.restore(load(save(arrays)), rest)  # as through a file
    assert other.step == before
    assert run(other, after) == run(trainer, after)
    assert torch.equal(weights(other), weights(trainer))
    assert other.state()[1] == trainer.state()[1]
    ours, theirs = trainer.state()[0], other.state()[0]
    assert ours.keys() == theirs.keys()
    assert [name for name, value in ours.items() if not torch.equal(value, theirs[name])] == []


def test_the_state_holds_the_scale_of_float16(make_trainer):
    trainer, other = make_trainer(), make_trainer()
    for one, scale in [(trainer, 8.0), (other, 2.0)]:
        one._accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    arrays, rest = trainer.state()
    other.restore(load(save(arrays)), rest)
    assert other._accelerator.scaler.get_scale() == 8.0
    assert other._accelerator.scaler.state_dict() == trainer._accelerator.scaler.state_dict()


def test_a_step_that_overflows_does_not_use_up_the_warm_up(make_trainer, monkeypatch):
    trainer = make_trainer()
    run(trainer, 1)
    before = trainer._rate.last_epoch
    monkeypatch.setattr(trainer._optimizer, "_is_overflow", True)
    monkeypatch.setattr(trainer._optimizer.optimizer, "step", lambda closure: None)
    run(trainer, 1)
    assert trainer._rate.last_epoch == before


def test_the_step_size_warms_up_and_falls_to_nothing(make_trainer):
    trainer = make_trainer(steps=100, batch_size=2)
    rates = []
    for _ in range(100):
        rates.append(trainer._rate.get_last_lr()[0])
        trainer.advance()
    # Two steps of warm-up, then half a cosine (Loshchilov and Hutter, arXiv 1608.03983, eq. 5).
    step = np.arange(100)
    expected = np.where(
        step < 2, step / 2, 0.5 * (1 + np.cos(np.pi * np.maximum(step - 2, 0) / 98))
    )
    assert np.allclose(rates, 2e-3 * expected, rtol=1e-6, atol=0)


def test_the_step_size_asked_for_or_the_presets():
    assert learning_rate(training()) == 2e-3
    assert learning_rate(training(learning_rate=0.5)) == 0.5


# --- precision ---


def test_bfloat16_trains_like_float32(make_trainer):
    full = run(make_trainer(batch_size=12), 30)
    half = run(make_trainer(batch_size=12, precision="bfloat16"), 30)
    assert np.isfinite(half).all()
    assert half != full
    # A bfloat16 keeps 8 bits, so each of about ten layers is off by up to 2^-9: two per cent in
    # all where every error has the same sign. The weights, kept in float32, drift apart slowly.
    assert np.abs(np.array(half) / full - 1).max() < 0.02


def test_two_trainings_in_one_process_may_differ_in_precision(make_trainer):
    first = run(make_trainer(), 3)
    half = run(make_trainer(precision="bfloat16"), 3)
    again = run(make_trainer(), 3)
    assert first == again
    assert first != half


def test_weights_and_averages_stay_in_float32(make_trainer):
    trainer = make_trainer(precision="bfloat16")
    run(trainer, 2)
    arrays, _ = trainer.state()
    assert {value.dtype for value in arrays.values()} == {torch.float32}
    assert {part.dtype for part in trainer.averaged().parameters()} == {torch.float32}


def test_a_precision_that_the_device_cannot_train_in(make_trainer):
    with pytest.raises(UserError, match=r"precision is 'float16', which a CPU cannot train in"):
        make_trainer(precision="float16")


def test_what_accelerate_refuses_is_a_sentence(make_split, monkeypatch):
    def refuse(**options):
        raise ValueError("bf16 needs a newer device")

    monkeypatch.setattr("accelerate.Accelerator", refuse)
    with pytest.raises(UserError) as caught:
        Trainer(make_split(), training(precision="bfloat16"))
    assert "precision is 'bfloat16'" in str(caught.value)
    assert "'cpu' cannot train in (bf16 needs a newer device)" in str(caught.value)


def test_the_index_of_a_device_is_obeyed(make_split, monkeypatch):
    chosen = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: False)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)

    def stop(**options):
        assert options == {"cpu": False, "mixed_precision": "no"}
        raise ValueError("stop here")

    monkeypatch.setattr("accelerate.Accelerator", stop)
    with pytest.raises(UserError, match="stop here"):
        Trainer(make_split(), training(device="cuda:2"))
    assert chosen == [torch.device("cuda:2")]


def test_more_processes_than_gpus(make_trainer, monkeypatch):
    trainer = make_trainer()
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    trainer._accelerator = SimpleNamespace(num_processes=3, device=torch.device("cuda:0"))
    with pytest.raises(UserError, match="processes is 3, but torch sees 2 CUDA devices"):
        trainer._require_shares()
