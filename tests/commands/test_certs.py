"""``fedeas certs``: what it makes, what it says, and what it leaves alone."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fedeas_app.certificates import server_names
from fedeas_app.commands import app

LOCAL = ["localhost", "127.0.0.1", "::1"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "certs"


def certs(directory: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["certs", "--out", str(directory), *words])


def files(directory: Path) -> set[str]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)) for path in found} - {".lock"}


def test_one_call_makes_everything(directory: Path):
    done = certs(directory, "--name", "link.test", "--name=10.0.0.5", "--node=a", "--node=b")
    assert done.exit_code == 0, done.output
    nodes = {"nodes/a", "nodes/a.pub", "nodes/b", "nodes/b.pub"}
    assert files(directory) == {"ca.crt", "ca.key", "server.key", "server.pem"} | nodes
    assert server_names(directory) == ["link.test", "10.0.0.5", *LOCAL]
    assert f"Authority: {directory}/ca.crt (new)" in done.stdout
    assert "for link.test, 10.0.0.5, localhost" in done.stdout
    assert f"register {directory}/nodes/b.pub" in done.stdout


def test_without_names_the_certificate_is_renewed_for_the_same(directory: Path):
    certs(directory, "--name", "link.test")
    before = (directory / "server.pem").read_bytes(), (directory / "ca.crt").read_bytes()
    done = certs(directory)
    assert done.exit_code == 0, done.output
    assert "(kept)" in done.stdout
    assert (directory / "server.pem").read_bytes() != before[0]
    assert (directory / "ca.crt").read_bytes() == before[1]
    assert server_names(directory) == ["link.test", *LOCAL]


def test_a_node_alone_needs_no_authority_and_touches_none(directory: Path):
    done = certs(directory, "--node", "a")
    assert done.exit_code == 0, done.output
    assert files(directory) == {"nodes/a", "nodes/a.pub"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no certificate in"),
        (["--name", "host:80"], "'host:80' is neither"),
        (["--node", "../a"], "'../a' cannot be used"),
    ],
)
def test_mistakes_are_told_in_one_sentence(directory: Path, words: list[str], said: str):
    done = certs(directory, *words)
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("days", ["0", "4000", "soon"])
def test_a_lifetime_must_make_sense(directory: Path, days: str):
    assert certs(directory, "--name=a", f"--days={days}").exit_code == 2
    assert not directory.exists()
