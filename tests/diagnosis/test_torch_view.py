"""What torch is asked, in whatever state it is."""

import sys
import warnings
from types import SimpleNamespace

import pytest

from fedeas_app.diagnosis.torch_view import TorchView, ask_torch

GPU = SimpleNamespace(name="A100", total_memory=80_000_000_000)


def torch_of(cuda="13.0", hip=None, available=lambda: True, properties=lambda index: GPU):
    return SimpleNamespace(
        version=SimpleNamespace(cuda=cuda, hip=hip),
        cuda=SimpleNamespace(
            is_available=available, device_count=lambda: 2, get_device_properties=properties
        ),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: False)),
    )


def asked(monkeypatch, torch):
    monkeypatch.setitem(sys.modules, "torch", torch)
    return ask_torch()


def test_devices_with_names_and_memory(monkeypatch):
    expected = TorchView(build="CUDA 13.0 build", gpus=(("A100", 80_000_000_000),) * 2)
    assert asked(monkeypatch, torch_of()) == expected


@pytest.mark.parametrize(
    ("cuda", "hip", "build"), [(None, None, "CPU build"), (None, "6.4", "ROCm 6.4 build")]
)
def test_builds(monkeypatch, cuda, hip, build):
    torch = torch_of(cuda=cuda, hip=hip, available=lambda: False)
    assert asked(monkeypatch, torch) == TorchView(build=build)


def test_a_warning_of_the_driver_is_kept(monkeypatch):
    def too_old():
        warnings.warn("The NVIDIA driver is too old\n(found 470)", stacklevel=1)
        return False

    assert asked(monkeypatch, torch_of(available=too_old)).complaint == (
        "The NVIDIA driver is too old"
    )


def test_a_device_that_is_lost_is_told(monkeypatch):
    def lost(index):
        raise RuntimeError("CUDA error: device lost")

    view = asked(monkeypatch, torch_of(properties=lost))
    assert (view.gpus, view.complaint) == ((), "CUDA error: device lost")


def test_no_torch_is_no_traceback(monkeypatch):
    assert "torch" in asked(monkeypatch, None).broken  # as Python has it: import of torch halted
