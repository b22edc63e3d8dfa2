"""``fedeas report`` as a user sees it."""

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from fedeas_app.commands import app


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setattr("fedeas_app.report.page.render", lambda directory: f"<p>{directory.name}")
    directory = tmp_path / "run"
    directory.mkdir()
    for name in ("config.toml", "summary.json"):
        (directory / name).touch()
    return directory


def report(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_the_file_is_in_the_directory_and_its_path_is_printed(directory):
    done = report(directory)
    assert done.exit_code == 0
    assert done.output == f"Report: {directory / 'report.html'}\n"
    assert (directory / "report.html").read_text() == f"<p>{directory.name}"
    assert {path.name for path in directory.iterdir()} == {
        "config.toml", "report.html", "summary.json",
    }  # fmt: skip


def test_it_can_be_written_elsewhere(directory, tmp_path):
    done = report(directory, "--out", tmp_path / "[other].html")
    assert done.output == f"Report: {tmp_path / '[other].html'}\n"
    assert (tmp_path / "[other].html").is_file()


def test_the_browser_is_opened_when_asked_for(directory, monkeypatch):
    opened = []
    monkeypatch.setattr(typer, "launch", opened.append)
    report(directory)
    assert opened == []
    report(directory, "--open")
    assert opened == [str(directory / "report.html")]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none", "There is no directory {}; fedeas run and fedeas compare print theirs"),
        ("run/summary.json", "{} is a file; name the directory of a run or of a comparison"),
        ("empty", "{} is neither a run's directory (config.toml, summary.json) nor a comparison's"),
        (".", "{} is neither a run's directory"),
        (".", "it holds some, such as {}/run."),
    ],
)
def test_what_is_no_record_is_one_sentence(directory, tmp_path, name, words):
    (tmp_path / "empty").mkdir()
    done = report(tmp_path / name)
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert words.format(tmp_path / name) in done.output
    assert len(done.output.splitlines()) == 1


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (".", "is a directory; name a file in it"),
        ("config.toml/report.html", "cannot be written"),
        ("none/report.html", "cannot be written (No such file or directory)"),
        ("n" * 300, "cannot be written (File name too long)"),
    ],
)
def test_a_file_that_cannot_be_written_is_told_before_anything_is_drawn(
    directory, monkeypatch, place, words
):
    monkeypatch.setattr("fedeas_app.report.page.render", lambda directory: 1 / 0)
    done = report(directory, "--out", directory / place)
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert words in done.output
    assert len(done.output.splitlines()) == 1


def test_the_command_line_starts_without_matplotlib_and_torch():
    code = (
        "import sys, fedeas_app.commands; print({'torch', 'matplotlib', 'jinja2'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
