"""What several test files share: small settings, a fake generator, Flower outside Flower."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
import torch
from fake_generator import FakeGenerator
from flwr.supercore.task_identity import TaskIdentity

from fedeas_app.settings import Settings

# What runs tests side by side sets a width, and consoles keep what they find when they are made.
os.environ.pop("COLUMNS", None)

# How long an example takes is the machine's affair, and says nothing of what is tested.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _flower_outside_flower(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages can only be made by a process that has these."""
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture(autouse=True)
def _clients_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients in the tests' own process take the run's paths, as in simulation."""
    monkeypatch.setattr("fedeas_app.node.in_simulation", lambda: True)


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heard() -> Iterator[None]:
    """Tests started in the background inherit an ignored SIGINT, and so would their processes."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """The networks here are too small to be worth more, and tests may run side by side."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests: the digits are decoded and partitioned once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def configure(cache_dir: Path, tmp_path: Path) -> Callable[..., Settings]:
    """Return small settings on the digits; keys in snake case override them."""

    def make(**keys: object) -> Settings:
        small: dict[str, object] = {
            "dataset": "digits",
            "cache-dir": str(cache_dir),
            "output-dir": str(tmp_path / "runs"),
            "run-name": "run",
            "device": "cpu",
            "policy": "none",
            "train-samples": 300,
            "test-samples": 60,
            "num-clients": 4,
            "rounds": 3,
            "local-epochs": 1,
        }
        return Settings.parse(small | {key.replace("_", "-"): keys[key] for key in keys})

    return make


@pytest.fixture
def fake_generator(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> FakeGenerator:
    """Put a fake generator in the place of whatever the settings name.

    Its digest is the test's own, so that no test finds another's images in the cache.
    """
    fake = FakeGenerator(digest=request.node.nodeid)
    for module in ("client", "task"):
        monkeypatch.setattr(f"fedeas_app.{module}.open_generator", lambda settings: fake)
    return fake
