"""What ends a command from outside."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedeas_app.commands.launcher import app_directory, gpus_shown, interruptible

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_signal_that_ends_a_command_is_an_interrupt(number):
    before = signal.getsignal(number)

    def killed():
        with interruptible():
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt):
        killed()
    assert signal.getsignal(number) == before


def test_the_app_directory_holds_the_app_and_nothing_beside_it(tmp_path):
    directory = app_directory(tmp_path)
    assert {path.name for path in directory.iterdir()} == {
        "LICENSE", "README.md", "client_app.py", "conf", "fedeas_app", "pyproject.toml",
        "server_app.py",
    }  # fmt: skip
    assert not list(directory.rglob("__pycache__"))
    modules = {path.relative_to(ROOT) for path in ROOT.glob("fedeas_app/**/*.py")}
    assert modules == {path.relative_to(directory) for path in directory.glob("fedeas_app/**/*.py")}
    shipped = Path("fedeas_app/generators/shipped")
    assert list((directory / shipped).iterdir())


@pytest.mark.parametrize(("device", "all_shown"), [("cuda:1", True), ("cuda", False)])
def test_workers_see_the_gpu_that_is_named_by_its_number(configure, device, all_shown):
    """A real worker is asked what it sees; Ray needs no GPU to give some away."""
    asked = """
import os, ray
ray.init(num_cpus=1, num_gpus=2, include_dashboard=False, log_to_driver=False,
         _node_ip_address="127.0.0.1")
seen = ray.remote(num_gpus=0.5)(lambda: os.environ["CUDA_VISIBLE_DEVICES"])
print(ray.get(seen.remote()))
"""
    shown = gpus_shown(configure(device=device))
    environment = (
        os.environ | {"CUDA_VISIBLE_DEVICES": "2,3", "RAY_USAGE_STATS_ENABLED": "0"} | shown
    )
    run = [sys.executable, "-c", asked]
    result = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.split()[-1] == ("2,3" if all_shown else "2")
