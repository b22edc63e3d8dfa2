"""What ``fedeas generator sample`` and ``evaluate`` share, as a user sees it."""

import pytest
from typer.testing import CliRunner

from fedeas_app.commands import app


@pytest.mark.parametrize("verb", ["sample", "evaluate"])
def test_what_exists_is_left_alone(command, fake, tmp_path, verb):
    result = command(verb, "--out", tmp_path)
    assert result.exit_code == 1
    assert "exists already" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert fake.asked == []


@pytest.mark.parametrize("verb", ["sample", "evaluate", "train"])
def test_the_tilde_is_the_home_directory(command, tmp_path, monkeypatch, verb):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    result = command(verb, "--out=~/a")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {tmp_path / 'a'} exists already;")
    result = command(verb, "--out=~no-such-user/a")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: The directory ~no-such-user/a names an unknown home")
    assert result.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "generator=/nowhere"], "/nowhere"),
        (["--set", "sampler-steps=2000"], "sampler-steps is 2000"),
        (["--set", "sampler=magic"], "sampler is 'magic'"),
    ],
)
def test_a_mistake_is_one_sentence(command, tmp_path, arguments, words):
    for verb in ("sample", "evaluate"):
        result = command(verb, "--out", tmp_path / "out", *arguments)
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: ")
        assert words in result.stderr
        assert result.stderr.count("\n") == 1
        assert list(tmp_path.iterdir()) == []


def test_help_names_both():
    result = CliRunner().invoke(app, ["generator", "--help"])
    assert "sample" in result.stdout
    assert "evaluate" in result.stdout
