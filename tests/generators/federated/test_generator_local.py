"""A client's steps on the generator."""

import numpy as np
import pytest
import torch

from fedeas_app.errors import PublicError
from fedeas_app.generators.federated.local import EMBEDDING, train_locally
from fedeas_app.generators.federated.network import make_network
from fedeas_app.generators.federated.options import step_size
from fedeas_app.local import Examples

SHAPE = (8, 8, 1)


def examples(labels, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (len(labels), *SHAPE), dtype=np.uint8)
    return Examples.from_arrays(images, np.array(labels))


def train(settings, labels, server_round=1, seed=0):
    unet = make_network(settings, SHAPE, 3)
    before = {name: w.clone() for name, w in unet.state_dict().items()}
    loss = train_locally(
        unet, examples(labels), settings, server_round, torch.Generator().manual_seed(seed)
    )
    return before, unet.state_dict(), loss


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_client_without_a_class_leaves_its_embedding_to_the_bit(job, dropout):
    """Also with FedProx's term, and although AdamW decays weights."""
    settings = job(generator_mu=0.1, generator_label_dropout=dropout, generator_batch_size=20)
    before, after, _ = train(settings, [0, 2] * 20)
    moved = (before[EMBEDDING] != after[EMBEDDING]).any(dim=1).tolist()
    assert moved == [True, False, True] + [True] * (dropout > 0)


def test_one_step_by_hand(job):
    """AdamW's first step is η·sign(g), after the weights have decayed by 1 - 0.01·η."""
    settings = job(generator_batch_size=8, generator_learning_rate=0.004)
    before, after, loss = train(settings, [0, 1, 2, 0])
    eta = step_size(settings, 1)
    for name, old in before.items():
        decayed = old if name == EMBEDDING else old * (1 - 0.01 * eta)
        step = (decayed - after[name]).abs()
        assert (step <= eta * 1.001 + 1e-7).all()
    assert (before["conv_in.weight"] != after["conv_in.weight"]).any()
    # The network begins with noise of its own: it cannot know ε, whose variance is 1.
    assert 0.3 < loss < 3


def test_the_same_stream_gives_the_same_bits(job):
    settings = job(generator_label_dropout=0.2)
    first, second = (train(settings, [0, 1, 2] * 9)[1] for _ in range(2))
    other = train(settings, [0, 1, 2] * 9, seed=1)[1]
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["conv_in.weight"], other["conv_in.weight"])


def test_it_learns(job):
    settings = job(generator_epochs=12, generator_batch_size=8)
    _, _, loss = train(settings, [0, 1, 2] * 8)
    _, _, first = train(job(generator_epochs=1, generator_batch_size=8), [0, 1, 2] * 8)
    assert loss < first


def test_a_pull_keeps_the_weights_near(job):
    def distance(mu):
        settings = job(generator_mu=mu, generator_epochs=4, generator_batch_size=4)
        before, after, _ = train(settings, [0, 1, 2] * 4)
        return sum(float((after[n] - before[n]).square().sum()) for n in before)

    assert distance(100.0) < distance(0.0)


@pytest.mark.parametrize(
    ("keys", "also"),
    [
        ({"strategy": "fedadam"}, r""),  # the classifier's
        ({"generator_strategy": "fedavgm"}, r", or server-learning-rate, which is 1"),
        (
            {"generator_strategy": "fedadam", "server_learning_rate": 0.25},
            r", or server-learning-rate, which is 0\.25",
        ),
    ],
)
def test_training_that_diverges_names_the_keys(job, monkeypatch, keys, also):
    settings = job(generator_learning_rate=0.5, **keys)
    nan = torch.tensor(torch.nan, requires_grad=True)
    monkeypatch.setattr("fedeas_app.generators.federated.local._loss", lambda *_: nan * 1)
    with pytest.raises(PublicError, match=rf"learning-rate, which is 0\.5 \(.*\){also}\.$"):
        train(settings, [0, 1, 2])
