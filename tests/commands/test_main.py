"""The command itself: its version, and help that says what to give."""

from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from fedeas_app import __version__
from fedeas_app.commands import app


def fedeas(*words):
    return CliRunner().invoke(app, list(words))


def test_versions_are_of_the_app_and_of_flower():
    done = fedeas("--version")
    assert done.exit_code == 0
    assert done.output == f"fedeas {__version__}, flwr {version('flwr')}\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("run", "A TOML file, or the name of a preset"),
        ("plan", "A TOML file, or the name of a preset"),
        ("compare", "the directory of an earlier comparison"),
        ("report", "The directory of a run or of a comparison"),
        ("generator train", "A TOML file, or the name of a preset"),
        ("generator sample", "A TOML file, or the name of a preset"),
        ("generator evaluate", "A TOML file, or the name of a preset"),
    ],
)
def test_every_argument_has_help(command, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    shown = fedeas(*command.split(), "--help").output
    assert words in shown.partition("Options")[0]
