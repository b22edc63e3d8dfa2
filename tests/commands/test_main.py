"""The command itself: its version, and help that says what to give."""

import os
import subprocess
import sys
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


def test_a_terminal_that_knows_no_greek_letter_gets_a_question_mark(tmp_path):
    (tmp_path / "counts.csv").write_text("5,0\n2,9\n")
    code = "from fedeas_app.commands import app; app()"
    command = [sys.executable, "-c", code, "plan", "--counts", str(tmp_path / "counts.csv")]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "Policy fedeas, ? = 12: " in shown.stdout
