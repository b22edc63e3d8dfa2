"""``fedeas keys`` leaves no key out."""

from pathlib import Path

from typer.testing import CliRunner

from fedeas_app.commands import app
from fedeas_app.settings import Settings


def test_every_key_is_listed(monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    result = CliRunner().invoke(app, ["keys"])
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    for key in Settings.parse({}).to_flat():
        description = Settings.model_fields[key.replace("-", "_")].description
        assert description in lines[key]


def test_markup_in_a_description_is_shown_as_it_is(monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    assert "`cuda[:N]`" in CliRunner().invoke(app, ["keys"]).stdout


def test_the_readme_shows_the_keys_as_they_are():
    table = CliRunner().invoke(app, ["keys", "--markdown"]).stdout.strip()
    assert table in (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
