"""MOON's contrastive term against the paper's formula, and its references."""

import math

import numpy as np
import pytest
import torch
from by_hand import COUNT, Hidden, batches, data, job, pixels, softmax

from fedeas_app.local import train_locally, train_sgd
from fedeas_app.local.moon import contrastive_forward, contrastive_loss, train_moon

MOON = {"strategy": "moon", "moon_mu": 2.0, "moon_temperature": 0.5}


def cosine(a, b):
    return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def by_formula(z, z_glob, z_prev, tau):
    near, far = np.exp(cosine(z, z_glob) / tau), np.exp(cosine(z, z_prev) / tau)
    return float(np.mean(-np.log(near / (near + far))))


def draw(seed, shape=(4, 5)):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("tau", [0.07, 0.5, 3.0])
def test_the_term_is_the_formula_of_the_paper(tau):
    z, z_glob, z_prev = (draw(seed) for seed in range(3))
    loss = contrastive_loss(*map(torch.from_numpy, (z, z_glob, z_prev)), tau)
    assert float(loss) == pytest.approx(by_formula(z, z_glob, z_prev, tau), rel=1e-9)


def test_the_term_stays_finite_where_the_exponential_would_not():
    z = torch.ones(1, 4, dtype=torch.float64)
    assert float(contrastive_loss(z, -z, z, 1e-4)) == pytest.approx(2e4)  # e^{1e4} overflows


def test_it_draws_towards_the_global_and_away_from_the_previous_model():
    z = torch.from_numpy(draw(0)).requires_grad_()
    z_glob, z_prev = (torch.from_numpy(draw(seed)) for seed in (1, 2))
    contrastive_loss(z, z_glob, z_prev, 0.5).backward()
    moved = (z - 0.1 * z.grad).detach().numpy()
    before = z.detach().numpy()
    assert (cosine(moved, z_glob.numpy()) - cosine(before, z_glob.numpy())).mean() > 0
    assert (cosine(moved, z_prev.numpy()) - cosine(before, z_prev.numpy())).mean() < 0


def hidden_gradients(first, last, rows, first_glob, first_prev, mu, tau):
    """Backpropagation by hand through both terms: gradients of the two layers."""
    x, labels = pixels()[rows], data()[1][rows]
    a = x @ first.T
    z = np.maximum(a, 0)
    error = (softmax(z @ last.T) - np.eye(3)[labels]) / len(rows)
    references = [np.maximum(x @ other.T, 0) for other in (first_glob, first_prev)]
    p = softmax(np.stack([cosine(z, r) for r in references], axis=1) / tau)
    dz = error @ last
    for r, slope in zip(references, (p[:, 0] - 1, p[:, 1]), strict=True):
        lengths = np.linalg.norm(z, axis=1) * np.linalg.norm(r, axis=1)
        along = (r / lengths[:, None]) - cosine(z, r)[:, None] * z / (z**2).sum(1)[:, None]
        dz += mu / tau / len(rows) * slope[:, None] * along
    return (dz * (a > 0)).T @ x, error.T @ z


def test_three_steps_by_hand(configure):
    settings = configure(**MOON, batch_size=8, momentum=0.0, learning_rate=0.05)
    model, previous = Hidden(), Hidden(seed=9)
    first, last = (layer.weight.detach().numpy().copy() for layer in (model.first, model.last))
    first_glob, first_prev = first.copy(), previous.first.weight.detach().numpy()
    steps = list(batches(settings))
    assert len(steps) == 3
    for rows in steps:
        down = hidden_gradients(first, last, rows, first_glob, first_prev, 2.0, 0.5)
        first, last = first - 0.05 * down[0], last - 0.05 * down[1]
    outcome = train_moon(job(model, settings, state=previous.state_dict()))
    assert np.allclose(model.first.weight.detach().numpy(), first, atol=1e-6)
    assert np.allclose(model.last.weight.detach().numpy(), last, atol=1e-6)
    assert all(torch.equal(outcome.state[n], t) for n, t in model.state_dict().items())
    assert outcome.sent == {}


def same(one, other):
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def sgd(settings):
    model = Hidden()
    again = job(model, settings)
    train_sgd(model, again.examples, settings, again.rng)
    return model


def test_a_first_round_is_sgd_to_the_bit(configure):
    settings = configure(**MOON)
    model = Hidden()
    train_locally(job(model, settings))
    assert same(model, sgd(settings))


def test_with_the_global_model_for_the_previous_one_the_term_is_log_two(configure):
    settings = configure(**MOON)
    model = Hidden()
    forward = contrastive_forward(job(model, settings, state=model.state_dict()))
    images = torch.from_numpy(pixels().reshape(COUNT, 3, 2, 2)).float()
    _, term = forward(images)
    assert float(term.detach()) == pytest.approx(2.0 * math.log(2))
    term.backward()
    assert model.first.weight.grad.abs().max() < 1e-15
    # Later steps too: whatever the weights, both references are one.
    train_moon(job(model, settings, state=Hidden().state_dict()))
    expected = sgd(settings)
    for a, b in zip(model.parameters(), expected.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-14)


def test_mu_zero_is_sgd_to_the_bit(configure):
    settings = configure(strategy="moon").model_copy(update={"moon_mu": 0.0})
    model = Hidden()
    train_moon(job(model, settings, state=Hidden(seed=9).state_dict()))
    assert same(model, sgd(settings))


def test_references_are_in_evaluation_mode_and_without_gradient(configure):
    class Moody(Hidden):
        modes = []  # noqa: RUF012  # shared with the copies on purpose

        def preactivations(self, images):
            self.modes.append((self.training, torch.is_grad_enabled()))
            return super().preactivations(images)

    model = Moody()
    settings = configure(**MOON, batch_size=COUNT)
    before = Hidden(seed=9).state_dict()
    kept = {name: tensor.clone() for name, tensor in before.items()}
    train_moon(job(model, settings, state=before))
    assert Moody.modes == [(True, True), (False, False), (False, False)]
    assert all(torch.equal(before[name], kept[name]) for name in kept)


def test_the_loss_told_is_the_cross_entropy_alone(configure):
    settings = configure(**MOON, batch_size=COUNT)
    x, labels = pixels(), data()[1]
    model = Hidden()
    first, last = (layer.weight.detach().numpy() for layer in (model.first, model.last))
    p = softmax(np.maximum(x @ first.T, 0) @ last.T)
    expected = float(-np.log(p[np.arange(COUNT), labels]).mean())
    outcome = train_moon(job(model, settings, state=Hidden(seed=9).state_dict()))
    assert outcome.loss == pytest.approx(expected, abs=1e-6)


def test_the_proximal_term_can_be_added(configure):
    keys = MOON | {"batch_size": 6}
    settings = configure(**keys, proximal_mu=5.0)
    pulled, free = Hidden(), Hidden()
    train_moon(job(pulled, settings, state=Hidden(seed=9).state_dict()))
    train_moon(job(free, configure(**keys), state=Hidden(seed=9).state_dict()))
    start = Hidden()

    def distance(model):
        pairs = zip(model.parameters(), start.parameters(), strict=True)
        return sum(float((a - b).detach().square().sum()) for a, b in pairs)

    assert 0 < distance(pulled) < distance(free)
