"""SCAFFOLD's local steps and both options of its new variate, written out in NumPy."""

import numpy as np
import pytest
import torch
from by_hand import COUNT, Hidden, Linear, batches, data, descend, gradient, job

from fedeas_app.local import Examples, Job, train_sgd
from fedeas_app.local.scaffold import total_step, train_scaffold

NAME = "layer.weight"


def variates(seed):
    return {NAME: torch.from_numpy(np.random.default_rng(seed).normal(size=(3, 12)) / 5)}


KEYS = [
    {"momentum": 0.0, "batch_size": 12, "local_epochs": 1},  # two steps
    {"momentum": 0.0, "batch_size": 8, "local_epochs": 2},
    {"momentum": 0.9, "batch_size": 8, "local_epochs": 2},
    {"momentum": 0.5, "batch_size": 5, "weight_decay": 0.1},
]


@pytest.mark.parametrize("keys", KEYS)
def test_steps_follow_the_corrected_gradient(configure, keys):
    settings = configure(strategy="scaffold", learning_rate=0.1, **keys)
    model, c, c_k = Linear(), variates(1), variates(2)
    start = model.w
    train_scaffold(job(model, settings, received=c, state=c_k))
    shift = (c[NAME] - c_k[NAME]).numpy()
    assert np.allclose(model.w, descend(start, settings, lambda w: shift), atol=1e-6, rtol=0)


@pytest.mark.parametrize("keys", KEYS[:2])
def test_option_two_is_the_formula_of_the_paper(configure, keys):
    settings = configure(strategy="scaffold", learning_rate=0.1, **keys)
    model, c, c_k = Linear(), variates(1), variates(2)
    start = model.w
    outcome = train_scaffold(job(model, settings, received=c, state=c_k))
    tau = len(list(batches(settings)))
    expected = (c_k[NAME] - c[NAME]).numpy() + (start - model.w) / (tau * 0.1)
    assert np.allclose(outcome.state[NAME], expected, atol=1e-12)
    assert np.allclose(outcome.sent[NAME], expected - c_k[NAME].numpy(), atol=1e-12)


@pytest.mark.parametrize("keys", KEYS)
def test_option_two_is_a_mean_of_the_gradients_met_also_with_momentum(configure, keys):
    settings = configure(strategy="scaffold", learning_rate=0.1, **keys)
    m, model, c, c_k = settings.momentum, Linear(), variates(1), variates(2)
    w, v, met = model.w, 0.0, []
    for rows in batches(settings):
        met.append(gradient(w, rows) + settings.weight_decay * w)
        v = m * v + met[-1] + (c[NAME] - c_k[NAME]).numpy()
        w = w - 0.1 * v
    # Through momentum a gradient still moves the weights in all steps after its own.
    carried = [sum(m**age for age in range(len(met) - step)) for step in range(len(met))]
    mean = sum(a * g for a, g in zip(carried, met, strict=True)) / sum(carried)
    outcome = train_scaffold(job(model, settings, received=c, state=c_k))
    assert np.allclose(outcome.state[NAME], mean, atol=1e-6)


@pytest.mark.parametrize(("tau", "m", "expected"), [(1, 0.9, 1), (3, 0.0, 3), (3, 0.5, 4.25)])
def test_a_unit_gradient_is_carried_on_by_momentum(tau, m, expected):
    # Three steps at m = 1/2: 1.75 + 1.5 + 1.
    assert total_step(tau, m) == pytest.approx(expected)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_option_one_is_the_full_gradient_at_the_start(configure, momentum):
    settings = configure(
        strategy="scaffold", scaffold_option="I", momentum=momentum, weight_decay=0.2, batch_size=7
    )
    model, c, c_k = Linear(), variates(1), variates(2)
    expected = gradient(model.w, np.arange(COUNT)) + 0.2 * model.w
    outcome = train_scaffold(job(model, settings, received=c, state=c_k))
    assert np.allclose(outcome.state[NAME], expected, atol=1e-6)
    assert np.allclose(outcome.sent[NAME], expected - c_k[NAME].numpy(), atol=1e-6)


@pytest.mark.parametrize("option", ["I", "II"])
def test_the_first_round_is_sgd_to_the_bit_and_leaves_a_variate(configure, option):
    settings = configure(strategy="scaffold", scaffold_option=option, augment=True)
    one, other = Hidden(), Hidden()
    zeros = {name: torch.zeros_like(p) for name, p in one.named_parameters()}
    outcome = train_scaffold(job(one, settings, received=zeros))
    again = job(other, settings)
    assert outcome.loss == train_sgd(other, again.examples, settings, again.rng)
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert outcome.state[name].abs().max() > 0
        assert torch.equal(outcome.sent[name], outcome.state[name])


def test_variates_are_those_of_the_trainable_parameters_alone(configure):
    model = Linear()
    outcome = train_scaffold(job(model, configure(strategy="scaffold"), received=variates(1)))
    assert list(outcome.state) == list(outcome.sent) == [NAME]
    assert model.steps == 0
    frozen = Hidden()
    frozen.first.weight.requires_grad_(False)
    c = {"last.weight": torch.zeros(3, 16, dtype=torch.float64)}
    outcome = train_scaffold(job(frozen, configure(strategy="scaffold"), received=c))
    assert list(outcome.sent) == ["last.weight"]


@pytest.mark.parametrize("wrong", [{}, {"other": torch.zeros(3, 12)}])
def test_variates_of_another_model_are_refused(configure, wrong):
    settings = configure(strategy="scaffold")
    with pytest.raises((KeyError, ValueError)):
        train_scaffold(job(Linear(), settings, received=wrong, state=variates(2)))
    more = variates(2) | {"steps": torch.zeros(())}
    with pytest.raises(ValueError, match="trainable parameters"):
        train_scaffold(job(Linear(), settings, received=variates(1) | more, state=more))


def global_gradient(w, parts, decay):
    """The gradient of the objective in which every example counts alike."""
    total = sum(len(rows) * gradient(w, rows) for rows in parts) / COUNT
    return np.linalg.norm(total + decay * w)


@pytest.mark.parametrize(
    ("option", "momentum", "step"), [("I", 0.0, 0.2), ("II", 0.0, 0.2), ("II", 0.5, 0.1)]
)
def test_clients_who_differ_still_find_the_optimum_of_all(configure, option, momentum, step):
    """Where local steps alone stop beside it: what control variates are for."""
    keys = {"momentum": momentum, "weight_decay": 0.1, "learning_rate": step}
    settings = configure(
        strategy="scaffold", scaffold_option=option, batch_size=64, local_epochs=5, **keys
    )
    order = np.argsort(data()[1])  # by label: no client has all classes
    parts = [order[:8], order[8:]]
    images, labels = data()
    examples = [Examples.from_arrays(images[rows], labels[rows]) for rows in parts]
    ends = {}
    for corrected in (True, False):
        w = Linear().layer.weight.detach().clone()
        c, kept = {NAME: torch.zeros_like(w)}, [{}, {}]
        for _ in range(150):
            locals_, changes = [], []
            for k in range(2):
                model, rng = Linear(), torch.Generator().manual_seed(0)
                model.layer.weight.data.copy_(w)
                if corrected:
                    outcome = train_scaffold(Job(model, examples[k], settings, rng, c, kept[k]))
                    kept[k] = outcome.state
                    changes.append(outcome.sent[NAME])
                else:
                    train_sgd(model, examples[k], settings, rng)
                locals_.append(model.layer.weight.detach())
            share = [len(rows) / COUNT for rows in parts]
            w = sum(p * own for p, own in zip(share, locals_, strict=True))
            if corrected:
                c = {NAME: c[NAME] + sum(p * d for p, d in zip(share, changes, strict=True))}
        ends[corrected] = global_gradient(w.numpy(), parts, 0.1)
    assert ends[True] < 1e-5
    assert ends[False] > 1e-3
