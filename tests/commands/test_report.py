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
    return tmp_path


def report(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_the_file_is_in_the_directory_and_its_path_is_printed(directory):
    done = report(directory)
    assert done.exit_code == 0
    assert done.output == f"Report: {directory / 'report.html'}\n"
    assert (directory / "report.html").read_text() == f"<p>{directory.name}"
    assert [path.name for path in directory.iterdir()] == ["report.html"]


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


def test_mistakes_are_one_sentence(tmp_path):
    done = report(tmp_path)
    assert done.exit_code == 1
    assert "is neither a run's directory" in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("place", [".", "file/report.html"])
def test_a_file_that_cannot_be_written_is_one_sentence(directory, place):
    (directory / "file").touch()
    done = report(directory, "--out", directory / place)
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert len(done.output.splitlines()) == 1


def test_the_command_line_starts_without_matplotlib_and_torch():
    code = (
        "import sys, fedeas_app.commands; print({'torch', 'matplotlib', 'jinja2'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
