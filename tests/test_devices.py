"""Devices by name, and what is fixed while a result must repeat."""

import pytest
import torch

from fedeas_app.devices import (
    compile_for,
    on_device,
    release,
    repeatable,
    resolve_device,
    resolve_precision,
)
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


def test_the_precision_of_auto(monkeypatch):
    assert resolve_precision("auto", CPU) == "float32"
    for has_it, expected in [(True, "bfloat16"), (False, "float32")]:
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda _h=has_it, **_: _h)
        assert resolve_precision("auto", CUDA) == expected
    for name in ("float32", "bfloat16", "float16"):
        assert resolve_precision(name, CPU) == name


def test_an_unknown_precision():
    with pytest.raises(UserError) as caught:
        resolve_precision("half", CPU)
    text = str(caught.value)
    assert text == "precision is 'half'; auto, float32, bfloat16, float16 are allowed."


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


# --- what CUDA likes: only the decisions, on any machine ---

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class Fake(torch.nn.Module):
    """A network of so many weights that keeps what it was moved to."""

    def __init__(self, size=0):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(size, device="meta"))
        self.moves = []

    def to(self, *args, **kwargs):
        self.moves += [*args, *kwargs.values()]
        return self


def test_on_a_cpu_a_network_stays_as_it_is():
    network = torch.nn.Conv2d(3, 4, 3)
    before = network.weight.clone()
    assert on_device(network, CPU) is network
    assert torch.equal(network.weight, before)
    assert network.weight.is_contiguous()


@pytest.fixture
def compiles(monkeypatch):
    """Make this a machine that can compile, and mark what it compiled."""
    monkeypatch.setattr("fedeas_app.devices.find_spec", lambda name: object())
    monkeypatch.setenv("CC", "cc")
    monkeypatch.setattr(torch, "compile", lambda network: ("compiled", network))


def test_a_large_network_is_compiled_for_cuda(compiles):
    network = Fake(5_000_000)
    assert compile_for(CUDA, network) == ("compiled", network)


@pytest.mark.parametrize(
    ("device", "size", "layout"),
    [(CPU, 5_000_000, []), (CUDA, 4_999_999, []), (CUDA, 5_000_000, [torch.channels_last])],
)
def test_channels_are_last_where_a_network_is_compiled(compiles, device, size, layout):
    network = Fake(size)
    assert on_device(network, device) is network
    assert network.moves == [device, *layout]


@pytest.mark.parametrize(("device", "size"), [(CPU, 5_000_000), (CUDA, 4_999_999)])
def test_where_compiling_does_not_pay_it_is_left_out(compiles, device, size):
    network = Fake(size)
    assert compile_for(device, network) is network


@pytest.mark.parametrize("missing", ["compiler", "triton"])
def test_where_compiling_is_not_possible_it_is_left_out(compiles, monkeypatch, missing):
    if missing == "triton":
        monkeypatch.setattr("fedeas_app.devices.find_spec", lambda name: None)
    else:
        monkeypatch.delenv("CC")
        monkeypatch.setattr("fedeas_app.devices.shutil.which", lambda name: None)
    network = Fake(5_000_000)
    assert compile_for(CUDA, network) is network


def test_memory_is_given_back_to_cuda_alone(monkeypatch):
    calls = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("empty_cache"))
    release(CPU)
    assert calls == []
    release(CUDA)
    assert calls == ["empty_cache"]


def test_compiled_code_holds_no_weights_and_serves_the_next_network():
    """What lets a device be released without forgetting what was compiled."""
    import gc
    import weakref

    from torch._dynamo.utils import counters

    def run():
        network = torch.nn.Linear(2, 2)
        torch.compile(network, backend="eager")(torch.ones(1, 2))
        return weakref.ref(network)

    first, graphs = run(), counters["stats"]["unique_graphs"]
    second = run()
    gc.collect()
    assert (first(), second()) == (None, None)
    assert counters["stats"]["unique_graphs"] == graphs > 0
