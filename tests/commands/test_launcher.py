"""What ends a command from outside."""

import os
import signal
from pathlib import Path

import pytest

from fedeas_app.commands.launcher import app_directory, interruptible

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
