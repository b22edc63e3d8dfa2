"""One batch's gradient, whole or in halves."""

import copy

import pytest
import torch
from torch.nn import functional

from fedeas_app.devices import is_out_of_memory, within_memory
from fedeas_app.errors import PublicError
from fedeas_app.local.gradients import Gradients, cross_entropy


def network(*layers):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(5, 8), *layers, torch.nn.Tanh(), torch.nn.Linear(8, 3)
    )


def batch(count=7):
    rng = torch.Generator().manual_seed(1)
    return torch.randn(count, 5, generator=rng), torch.randint(3, (count,), generator=rng)


def short_of_memory(model, most):
    """Return a forward pass that fails as CUDA's does where more images come than fit."""

    def forward(images):
        if len(images) > most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        logits = model(images)
        return logits, 0.1 * logits.square().mean()

    return forward


def gradients(model, most=100, count=7, times=1):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compute = Gradients(cross_entropy(short_of_memory(model, most)), optimizer)
    losses = [float(compute(*batch(count))) for _ in range(times)]
    return losses, [p.grad.clone() for p in model.parameters()]


def by_hand(model):
    model = copy.deepcopy(model)
    images, labels = batch()
    logits = model(images)
    loss = functional.cross_entropy(logits, labels)
    (loss + 0.1 * logits.square().mean()).backward()
    return float(loss.detach()), [p.grad for p in model.parameters()]


def test_a_batch_that_fits_has_the_very_bits_of_the_plain_gradient():
    model = network()
    loss, expected = by_hand(model)
    losses, found = gradients(model)
    assert losses == [loss]
    assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("most", [4, 5, 6])
def test_halves_add_up_to_the_gradient_of_the_whole(most):
    model = network()
    loss, expected = by_hand(model)
    losses, found = gradients(model, most=most)
    assert losses == pytest.approx([loss], rel=1e-6)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


def test_once_halved_all_later_batches_are():
    seen = []
    model = network()
    model.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    gradients(model, most=4, times=2)
    assert seen == [4, 3, 4, 3]


@pytest.mark.parametrize(("most", "count"), [(3, 7), (0, 1)])
def test_a_batch_is_halved_once_and_then_it_is_an_error(most, count):
    with pytest.raises(torch.OutOfMemoryError):
        gradients(network(), most=most, count=count)


def test_other_errors_are_not_taken_for_want_of_memory():
    model = network()
    compute = Gradients(cross_entropy(lambda _: 1 / 0), torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(ZeroDivisionError):
        compute(*batch())


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (MemoryError(), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:119] DefaultCPUAllocator: not enough"), True),
        (RuntimeError("shape mismatch"), False),
    ],
)
def test_want_of_memory_is_one_sentence_with_the_advice(error, memory):
    assert is_out_of_memory(error) is memory
    kind = PublicError if memory else RuntimeError
    text = "^There is not enough memory; set x.$" if memory else "shape"
    with pytest.raises(kind, match=text), within_memory("set x"):
        raise error
