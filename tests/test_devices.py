"""Devices by name, and what is fixed while a result must repeat."""

import pytest
import torch

from fedeas_app.devices import repeatable, resolve_device
from fedeas_app.errors import UserError


@pytest.fixture
def sees(monkeypatch):
    """Make torch see a number of CUDA devices and Apple's."""

    def make(cuda, mps=False):
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return make


@pytest.mark.parametrize(("count", "kind"), [(0, "cpu"), (2, "cuda")])
def test_auto_takes_cuda_where_there_is_one(sees, count, kind):
    sees(count)
    assert resolve_device("auto").type == kind


@pytest.mark.parametrize("name", ["cpu", "cuda", "cuda:0", "cuda:1", "mps"])
def test_a_device_that_is_there(sees, name):
    sees(2, mps=True)
    assert str(resolve_device(name)) == name


@pytest.mark.parametrize(
    "name",
    ["cuda", "cuda:0", "cuda:2", "cuda:200", "cuda:255", "cuda:256", "cuda:99999999999", "mps"],
)
def test_a_device_that_is_not_there(sees, name):
    sees(0 if name in ("cuda", "cuda:0") else 2)
    with pytest.raises(UserError) as caught:
        resolve_device(name)
    assert f"device is {name!r}" in str(caught.value)
    assert "cpu" in str(caught.value)
    assert 'use device = "auto"' in str(caught.value)


def test_the_sentence_lists_what_torch_sees(sees):
    sees(2, mps=True)
    with pytest.raises(UserError, match="torch sees cpu, cuda:0, cuda:1, mps on this machine"):
        resolve_device("cuda:5")
    sees(0)
    with pytest.raises(UserError, match="torch sees cpu and no CUDA device on this machine"):
        resolve_device("cuda")


@pytest.mark.parametrize("name", ["gpu", "cuda:01", ""])
def test_a_name_that_torch_does_not_know(name):
    with pytest.raises(UserError, match="device is"):
        resolve_device(name)


def flags():
    cudnn = torch.backends.cudnn
    return cudnn.enabled, cudnn.benchmark, cudnn.deterministic


@pytest.mark.parametrize("enabled", [True, False])
def test_repeatable_fixes_kernels_and_leaves_cudnn_as_it_was(monkeypatch, enabled):
    monkeypatch.setattr(torch.backends.cudnn, "enabled", enabled)
    before = flags()
    with repeatable(1):
        assert flags() == (enabled, False, True)
    assert flags() == before


def test_repeatable_restores_the_threads():
    before = torch.get_num_threads()
    with repeatable(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_repeatable_restores_after_an_error():
    before = torch.get_num_threads(), flags()
    with pytest.raises(RuntimeError), repeatable(before[0] + 2):
        raise RuntimeError
    assert (torch.get_num_threads(), flags()) == before
