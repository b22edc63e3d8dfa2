"""What a generator costs, before it is trained."""

import pytest

from fedeas_app.generators.federated import cost as module
from fedeas_app.generators.federated.cost import estimate
from fedeas_app.generators.federated.network import make_network

SHAPE = (8, 8, 1)


@pytest.fixture
def _a_step_takes_two_seconds(monkeypatch):
    monkeypatch.setattr(module, "_time_step", lambda *_: 2.0)
    monkeypatch.setattr(module, "_time_call", lambda *_: 0.25)


@pytest.mark.usefixtures("_a_step_takes_two_seconds")
@pytest.mark.parametrize(("transfer", "each"), [("float32", 4), ("float16", 2)])
def test_bytes_and_seconds_by_hand(job, transfer, each):
    settings = job(
        generator_rounds=10, generator_epochs=3, generator_fraction=0.5, generator_transfer=transfer
    )
    count = sum(p.numel() for p in make_network(settings, SHAPE, 10).parameters())
    cost = estimate(settings, SHAPE, 10, [65, 64, 10])  # 2, 1 and 1 batches of 64
    assert cost.parameters == count
    assert cost.rounds == pytest.approx(10 * 2 / 3)  # two of three clients are asked
    assert cost.model_bytes == each * count
    assert cost.client_bytes == round(2 * 20 / 3 * each * count) + 4 * count
    assert cost.longest_seconds == pytest.approx(2.0 * 20 / 3 * 3 * 2)
    assert cost.total_seconds == pytest.approx(2.0 * 20 / 3 * 3 * 4)
    assert cost.pooled_bytes == (65 + 64 + 10) * 8 * 8
    assert cost.image_seconds == 2 * 0.25  # the two steps of `job`
    assert cost.to_dict()["client-bytes"] == cost.client_bytes


@pytest.mark.usefixtures("_a_step_takes_two_seconds")
@pytest.mark.parametrize(("fraction", "rounds"), [(0.01, 6), (0.15, 12), (0.5, 30), (1.0, 60)])
def test_a_round_asks_one_client_at_least_and_whole_ones(job, fraction, rounds):
    """Of ten clients 0.1 would be asked, and is one; 1.5 would be, and are two."""
    settings = job(generator_rounds=60, generator_fraction=fraction, num_clients=10)
    assert estimate(settings, SHAPE, 10, [16] * 10).rounds == rounds
    assert estimate(settings, SHAPE, 10, [16]).rounds == rounds  # of one site alone too


@pytest.mark.usefixtures("_a_step_takes_two_seconds")
@pytest.mark.parametrize(
    ("keys", "calls"),
    [
        ({"sampler": "ddim", "sampler_steps": 0}, 50),
        ({"sampler": "ddpm", "sampler_steps": 0, "guidance_scale": 1.0}, 1000),
        ({"sampler_steps": 7, "guidance_scale": 2.0, "generator_label_dropout": 0.1}, 14),
    ],
)
def test_an_image_takes_the_networks_calls(job, keys, calls):
    assert estimate(job(**keys), SHAPE, 10, [4]).image_seconds == calls * 0.25


@pytest.mark.usefixtures("_a_step_takes_two_seconds")
def test_who_has_two_images_draws_some_to_search_them_for_copies(job):
    """One with a single image has no distance to measure with."""
    cost = estimate(job(generator_checked=32), SHAPE, 10, [65, 2, 1])
    assert cost.checked_images == 64
    assert cost.to_dict()["checked-images"] == 64
    assert estimate(job(generator_checked=0), SHAPE, 10, [65, 2]).checked_images == 0


def test_steps_and_calls_are_timed(job):
    cost = estimate(job(generator_batch_size=4, generator_unshuffle=2), SHAPE, 10, [4])
    assert 0 < cost.step_seconds < 60
    assert 0 < cost.image_seconds < 60
