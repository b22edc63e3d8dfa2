"""The proximal term against its gradient written out in NumPy."""

import numpy as np
import pytest
import torch
from by_hand import COUNT, Hidden, Linear, descend, job

from fedeas_app.local import train_locally, train_sgd
from fedeas_app.local.fedprox import train_fedprox


@pytest.mark.parametrize(
    "keys",
    [
        {"proximal_mu": 0.7, "momentum": 0.0},
        {"proximal_mu": 0.1, "momentum": 0.9, "local_epochs": 2},
        {"proximal_mu": 2.0, "momentum": 0.5, "weight_decay": 0.1},
    ],
)
def test_every_step_is_pulled_back_to_the_start(configure, keys):
    settings = configure(strategy="fedprox", batch_size=6, learning_rate=0.1, **keys)
    model = Linear()
    start = model.w
    outcome = train_fedprox(job(model, settings))
    expected = descend(start, settings, lambda w: settings.mu * (w - start))
    assert np.allclose(model.w, expected, atol=1e-6, rtol=0)
    assert not np.allclose(model.w, descend(start, settings, lambda w: 0.0), atol=1e-3)
    assert outcome.state == outcome.sent == {}


def test_the_pull_is_the_gradient_of_half_mu_times_the_squared_distance(configure):
    settings = configure(strategy="fedprox", proximal_mu=0.5, momentum=0.0, learning_rate=0.1)
    with_term, by_autograd = Hidden(), Hidden()
    train_fedprox(job(with_term, settings))

    start = {name: p.detach().clone() for name, p in by_autograd.named_parameters()}

    def forward(images):
        squares = [(p - start[name]).square().sum() for name, p in by_autograd.named_parameters()]
        return by_autograd(images), 0.25 * sum(squares)

    again = job(by_autograd, settings)
    train_sgd(by_autograd, again.examples, settings, again.rng, forward=forward)
    for one, other in zip(with_term.parameters(), by_autograd.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("strategy", ["fedavg", "fedoui", "fedadam"])
def test_without_mu_it_is_sgd_to_the_bit(configure, strategy):
    settings = configure(strategy=strategy)
    one, other = Hidden(), Hidden()
    loss = train_locally(job(one, settings)).loss
    again = job(other, settings)
    assert loss == train_sgd(other, again.examples, settings, again.rng)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("strategy", ["fedprox", "fedoui", "fedavgm"])
def test_every_strategy_can_take_the_term(configure, strategy):
    settings = configure(strategy=strategy, proximal_mu=3.0)
    model = Linear()
    start = model.w
    train_locally(job(model, settings))
    expected = descend(start, settings, lambda w: 3.0 * (w - start))
    assert np.allclose(model.w, expected, atol=1e-6, rtol=0)


def test_the_loss_told_is_the_cross_entropy_alone(configure):
    # One batch: the pull is 0 at the start, whatever μ.
    plain, pulled = (
        train_locally(job(Linear(), configure(batch_size=COUNT, proximal_mu=mu))).loss
        for mu in (0.0, 1e3)
    )
    assert plain == pulled
