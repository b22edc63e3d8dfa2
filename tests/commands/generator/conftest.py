"""The commands as a user calls them, with a generator that costs nothing."""

import pytest
from fake_generator import FakeGenerator
from typer.testing import CliRunner

from fedeas_app.commands import app


@pytest.fixture
def fake(monkeypatch):
    """A generator of noise in the place of whatever the settings name."""
    generator = FakeGenerator()
    monkeypatch.setattr("fedeas_app.generators.open_generator", lambda settings: generator)
    return generator


@pytest.fixture
def command(monkeypatch, cache_dir):
    monkeypatch.setenv("COLUMNS", "120")
    own = ["--set", f"cache-dir={cache_dir}", "--set", "device=cpu"]

    def invoke(verb, *arguments):
        return CliRunner().invoke(app, ["generator", verb, *own, *map(str, arguments)])

    return invoke
