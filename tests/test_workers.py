"""How many clients work at once."""

import sys
from types import SimpleNamespace

import pytest

from fedeas_app import workers
from fedeas_app.workers import Workers, plan_workers


@pytest.fixture
def machine(monkeypatch):
    """A machine of so many cores and GPUs, with NVIDIA's tool or without."""

    def make(cores, gpus, tool="/usr/bin/nvidia-smi"):
        monkeypatch.setattr(workers, "cores", lambda: cores)
        monkeypatch.setattr(workers.shutil, "which", lambda name: tool)
        cuda = SimpleNamespace(device_count=lambda: gpus)
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))

    return make


@pytest.mark.parametrize(
    ("cores", "gpus", "keys", "expected"),
    [
        (16, 1, {"device": "auto"}, Workers(16, 1, 0.0625)),
        (16, 4, {"device": "cuda", "threads": 8}, Workers(16, 8, 1.0)),
        (2, 0, {"device": "auto", "threads": 4}, Workers(2, 2, 0.0)),
        (16, 1, {"device": "cpu"}, Workers(16, 1, 0.0)),
    ],
)
def test_workers_share_cores_and_gpus(machine, configure, cores, gpus, keys, expected):
    machine(cores, gpus)
    assert plan_workers(configure(**keys)) == expected


def test_without_nvidias_tool_there_is_no_share(machine, configure):
    machine(4, 2, tool=None)
    assert plan_workers(configure(device="auto")).gpus == 0.0


@pytest.mark.parametrize(
    ("workers", "gpus", "count"),
    [
        (Workers(16, 1, 0.0625), 1, 16),
        (Workers(16, 1, 0.0625), 0, 0),
        (Workers(16, 8, 1.0), 4, 2),  # cores are scarcer
        (Workers(16, 1, 1.0), 4, 4),  # GPUs are
        (Workers(5, 2, 0.0), 0, 2),
    ],
)
def test_as_many_start_as_cores_and_shares_allow(workers, gpus, count):
    assert workers.at_once(gpus) == count
