"""The steps against torch's own optimiser, and what they do without."""

import copy
import subprocess
import sys

import pytest
import torch

from fedeas_app.local.optimizer import Sgd


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.GroupNorm(2, 4),
        torch.nn.Flatten(),
        torch.nn.Linear(36, 3),
    )


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_steps_are_those_of_torch_to_the_bit(momentum, decay, layout):
    ours = network().to(memory_format=layout)
    theirs = copy.deepcopy(ours)
    steps = Sgd(ours.parameters(), 0.05, momentum, decay)
    reference = torch.optim.SGD(theirs.parameters(), 0.05, momentum, weight_decay=decay)
    rng = torch.Generator().manual_seed(1)
    for number in range(5):
        images = torch.randn(6, 3, 5, 5, generator=rng)
        for model, optimizer in ((ours, steps), (theirs, reference)):
            optimizer.zero_grad()
            model(images).square().mean().backward()
            if number == 2:
                model[0].bias.grad = None  # out of the graph for once
            optimizer.step()
    state = theirs.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in ours.state_dict().items())
    assert not torch.equal(network()[0].weight, ours[0].weight)


def test_gradients_are_forgotten_and_without_any_nothing_moves():
    model = network()
    before = copy.deepcopy(model.state_dict())
    optimizer = Sgd(model.parameters(), 0.05, 0.9, 0.1)
    model(torch.ones(2, 3, 5, 5)).sum().backward()
    optimizer.zero_grad()
    optimizer.step()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_training_does_without_torchs_compiler():
    code = """
import sys, torch
from fedeas_app.local.optimizer import Sgd
model = torch.nn.Linear(2, 1)
optimizer = Sgd(model.parameters(), 0.1, 0.9)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
