"""A client's steps on the generator."""

import numpy as np
import pytest
import torch

from fedeas_app.errors import PublicError
from fedeas_app.generators.federated.local import (
    EMBEDDING,
    _loss,
    _optimizer,
    train_locally,
)
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


def cosine_schedule():
    """Return ᾱ of each time (Nichol and Dhariwal, arXiv 2102.09672, equation 17)."""
    f = torch.cos((torch.arange(1001).double() / 1000 + 0.008) / 1.008 * torch.pi / 2) ** 2
    return torch.cumprod(1 - (1 - f[1:] / f[:-1]).clamp(max=0.999), 0)


def gradients(settings, labels, seed=0):
    """Return those of the first batch: the draws of Algorithm 1 in their order, cut to norm 1."""
    rng = torch.Generator().manual_seed(seed)
    ((images, labels),) = examples(labels).batches(len(labels), rng, augment=False)
    noise = torch.randn(images.shape, generator=rng)
    times = torch.randint(1000, (len(images),), generator=rng)
    mean = cosine_schedule()[times].reshape(-1, 1, 1, 1).float()
    unet = make_network(settings, SHAPE, 3)
    noisy = mean.sqrt() * images / 2 + (1 - mean).sqrt() * noise
    loss = (unet(noisy, times, class_labels=labels).sample - noise).square().mean()
    loss.backward()
    found = {name: w.grad for name, w in unet.named_parameters()}
    norm = sum(float(g.square().sum()) for g in found.values()) ** 0.5
    return {name: g / max(1, norm) for name, g in found.items()}, loss.item()


def test_one_step_by_hand(job):
    """AdamW's first step is η·g/(|g| + 10⁻⁸), after weights, not embeddings, decay by 1 - 0.01·η.

    That is η·sign(g) but where the gradient is about 0.
    """
    settings = job(generator_batch_size=8, generator_learning_rate=0.004)
    before, after, loss = train(settings, [0, 1, 2, 0])
    g, expected_loss = gradients(settings, [0, 1, 2, 0])
    eta = step_size(settings, 1)
    for name, old in before.items():
        decayed = old if name == EMBEDDING else old * (1 - 0.01 * eta)
        clear = g[name].abs() > 1e-6  # elsewhere the last bits of g decide
        step = eta * g[name] / (g[name].abs() + 1e-8)
        assert torch.allclose(after[name][clear], (decayed - step)[clear], rtol=0, atol=1e-3 * eta)
        assert ((after[name] - decayed).abs() <= 1.001 * eta).all()
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    assert sum(int((g[name].abs() > 1e-6).sum()) for name in g) > 1000


class Small(torch.nn.Module):
    """Just enough of a network for an optimizer: labels' rows, and something else."""

    def __init__(self):
        super().__init__()
        rng = torch.Generator().manual_seed(1)
        self.class_embedding = torch.nn.Embedding.from_pretrained(
            torch.randn(3, 4, generator=rng), freeze=False
        )
        self.layer = torch.nn.Parameter(torch.randn(5, 7, generator=rng))

    def take(self, rng, optimizer):
        """Take a step with gradients of any size; the last row has none."""
        for w in self.parameters():
            w.grad = torch.randn(w.shape, generator=rng) * 10 ** torch.randn((), generator=rng)
        self.class_embedding.weight.grad[-1] = 0
        optimizer.step()


def test_the_fused_optimizer_is_the_plain_one():
    fused, plain = Small(), Small()
    asked = _optimizer(fused, 0.01)
    rows = {"params": [plain.class_embedding.weight], "weight_decay": 0.0}
    groups = [{"params": [plain.layer]}, rows]
    optimizer = torch.optim.AdamW(groups, lr=0.01, fused=False, foreach=False)
    assert [group["fused"] for group in asked.param_groups] == [True, True]
    first, second = (torch.Generator().manual_seed(2) for _ in range(2))
    for _ in range(30):
        fused.take(first, asked)
        plain.take(second, optimizer)
        for one, other in zip(fused.parameters(), plain.parameters(), strict=True):
            assert torch.allclose(one, other, rtol=1e-6, atol=1e-7)
    assert torch.equal(fused.class_embedding.weight[-1], Small().class_embedding.weight[-1])
    assert not torch.allclose(fused.layer, Small().layer, atol=0.01)


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
    monkeypatch.setattr("fedeas_app.generators.federated.local._loss", lambda *_: (nan * 1, 0.0))
    with pytest.raises(PublicError, match=rf"learning-rate, which is 0\.5 \(.*\){also}\.$"):
        train(settings, [0, 1, 2])


def test_a_batch_that_does_not_fit_is_halved_and_gives_the_same_step(job, monkeypatch):
    """Of 7 images 4 and 3, with the draws of all 7; the second batch begins in halves."""
    local = "fedeas_app.generators.federated.local"
    monkeypatch.setattr(
        f"{local}._optimizer", lambda unet, _: torch.optim.SGD(unet.parameters(), 0.1)
    )
    settings = job(generator_label_dropout=0.2, generator_mu=0.1, generator_epochs=2)
    _, expected, expected_loss = train(settings, [0, 1, 2, 0, 1, 2, 1])
    seen = []

    def short(unet, noisy, *others):
        seen.append(len(noisy))
        if len(noisy) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return _loss(unet, noisy, *others)

    monkeypatch.setattr(f"{local}._loss", short)
    _, found, loss = train(settings, [0, 1, 2, 0, 1, 2, 1])
    assert seen == [7, 4, 3, 4, 3]
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-7)
