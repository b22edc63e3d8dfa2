"""Devices, as torch, Ray and the configuration see them; all of them made up."""

from types import SimpleNamespace

import pytest

from fedeas_app.diagnosis import accelerators
from fedeas_app.diagnosis.accelerators import at_once, gpus_of_ray, look_at_devices
from fedeas_app.diagnosis.torch_view import TorchView
from fedeas_app.workers import Workers

TWO = TorchView(build="CUDA 13.0 build", gpus=(("A100", 80_000_000_000),) * 2)
NONE = TorchView(build="CPU build")


@pytest.fixture(autouse=True)
def _no_choice_of_devices(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def driver(monkeypatch):
    """Ray's manager of GPUs: how many there are, and which the environment allows."""
    manager = SimpleNamespace(
        get_current_node_num_accelerators=lambda: manager.count,
        get_current_process_visible_accelerator_ids=lambda: manager.allowed,
        count=2,
        allowed=None,
    )
    monkeypatch.setattr(
        "ray._private.accelerators.get_accelerator_manager_for_resource", lambda name: manager
    )
    return manager


@pytest.mark.parametrize(
    ("allowed", "seen", "words"),
    [
        (None, 2, "2 GPUs"),
        ([], 0, "0 GPUs, 2 hidden by CUDA_VISIBLE_DEVICES"),
        (["1"], 1, "1 GPU, 1 hidden by CUDA_VISIBLE_DEVICES"),
        (["0", "1", "2"], 2, "2 GPUs"),
    ],
)
def test_ray_takes_what_the_environment_allows(driver, allowed, seen, words):
    driver.allowed = allowed
    count, finding = gpus_of_ray()
    assert (count, finding.found, finding.status) == (seen, words, "ok")


def test_a_ray_that_cannot_be_asked_is_no_problem(monkeypatch):
    monkeypatch.delattr("ray._private.accelerators.get_accelerator_manager_for_resource")
    count, finding = gpus_of_ray()
    assert (count, finding.status) == (None, "warning")


def test_torch_names_its_devices(driver, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert look_at_devices(None, TWO)[0].found == (
        "cuda:0 A100, 80 GB; cuda:1 A100, 80 GB (CUDA_VISIBLE_DEVICES is '0,1')"
    )


@pytest.mark.parametrize(
    ("torch", "words"),
    [
        (NONE, "install a build for CUDA"),
        (TorchView(build="CUDA 13.0 build"), "new enough for its CUDA 13.0 build"),
        (TorchView(build="CUDA 13.0 build", complaint="Driver too old"), "It says: Driver too old"),
    ],
)
def test_gpus_that_torch_cannot_use(driver, torch, words):
    found = look_at_devices(None, torch)[0]
    assert found.status == "warning"
    assert words in found.advice


def test_a_device_that_is_not_there_is_a_problem(driver, configure):
    device = look_at_devices(configure(device="cuda:99"), NONE)[-1]
    assert (device.subject, device.status) == ("device", "problem")
    assert 'use device = "auto"' in device.advice


def test_the_configuration_has_a_device_and_clients(driver, configure, monkeypatch):
    monkeypatch.setattr(accelerators, "plan_workers", lambda settings: Workers(8, 4, 0.0))
    *_, device, clients = look_at_devices(configure(device="cpu"), NONE)
    assert device.found == "cpu"
    assert clients.found == "2 in a simulation, each with 4 cores"


def test_a_share_is_said_to_be_no_limit(configure):
    # 16 workers on 2 GPUs: an eighth each; 4 clients are all there are.
    found = at_once(configure(device="cuda"), Workers(16, 1, 0.125), TWO, 2)
    assert found.status == "ok"
    assert found.found == "4 in a simulation, each with 1 core and 0.125 of a GPU"
    assert "no limit of memory" in found.advice


def test_a_gpu_that_is_named_by_number_is_shared_by_all(configure):
    # Half of the promises are made of cuda:0, but all 4 clients go where the setting says.
    found = at_once(configure(device="cuda:1"), Workers(16, 1, 0.125), TWO, 2)
    assert found.found == "4 in a simulation, each with 1 core, all on cuda:1"
    assert "no limit of memory" in found.advice


def test_gpus_that_ray_does_not_see_start_no_client(configure):
    found = at_once(configure(device="cuda"), Workers(16, 1, 0.125), TWO, 0)
    assert found.status == "problem"
    assert "torch sees 2 GPUs and Ray none" in found.advice


@pytest.mark.parametrize(("device", "status"), [("auto", "warning"), ("cuda", "problem")])
def test_without_nvidia_smi_clients_are_promised_no_gpu(configure, device, status):
    found = at_once(configure(device=device), Workers(4, 1, 0.0), TWO, 2)
    assert found.status == status
    assert "nvidia-smi is not on the PATH" in found.advice


def test_who_wants_the_cpu_is_told_nothing_of_gpus(configure):
    found = at_once(configure(device="cpu"), Workers(4, 1, 0.0), TWO, 0)
    assert (found.status, found.advice) == ("ok", "")
