"""``fedeas run --superlink``: what is submitted, and how the command ends."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fedeas_app.commands import app, run
from fedeas_app.commands.submission import Outcome
from fedeas_app.settings import Settings


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Stand in for a SuperLink on which every run completes; collects what it is handed."""
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    (tmp_path / "config.toml").write_text('[superlink.site]\naddress = "127.0.0.1:1"\n')
    handed: list[Settings] = []

    def submit(name: str, settings: Settings) -> int:
        handed.append(settings)
        return 7

    monkeypatch.setattr(run, "submit", submit)
    monkeypatch.setattr(run, "follow", lambda name, run_id: Outcome("finished:completed", ""))
    return handed


def deploy(*words: str) -> Result:
    return CliRunner().invoke(app, ["run", "--superlink", "site", *words])


def test_a_presets_number_of_clients_is_for_simulation(submitted: list[Settings]):
    assert deploy("digits").exit_code == 0
    assert deploy("digits", "--set", "num-clients=3").exit_code == 0
    assert [settings.num_clients for settings in submitted] == ["auto", 3]


def test_a_file_says_how_many_clients_it_waits_for(submitted: list[Settings], tmp_path: Path):
    path = tmp_path / "run.toml"
    path.write_text("num-clients = 2\n")
    assert deploy(str(path)).exit_code == 0
    path.write_text("rounds = 2\n")
    assert deploy(str(path)).exit_code == 0
    assert [settings.num_clients for settings in submitted] == [2, "auto"]


def test_the_record_is_named_before_the_run(submitted: list[Settings]):
    done = deploy("--set", "output-dir=/srv/runs", "--set", "run-name=r")
    assert "record will be /srv/runs/r on the server's machine" in done.stdout
    assert "Completed. Record: /srv/runs/r on the server's machine." in done.stdout
    named = deploy()
    assert submitted[1].run_name
    assert submitted[1].run_name in named.stdout


def test_a_failed_run_ends_with_one_sentence(
    submitted: list[Settings], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run, "follow", lambda name, run_id: Outcome("finished:failed", "No data."))
    done = deploy()
    assert (done.exit_code, done.stderr) == (1, "Error: The run has failed: No data.\n")


def test_ctrl_c_says_how_to_follow_and_to_end_the_run(
    submitted: list[Settings], monkeypatch: pytest.MonkeyPatch
):
    def interrupted(name: str, run_id: int) -> Outcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "follow", interrupted)
    done = deploy()
    assert done.exit_code == 130
    assert "flwr log 7 site" in done.stdout
    assert "flwr stop 7 site" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "dataset=./mine"], "'./mine'; on other machines"),
        (["--set", "rounds=0"], "rounds is 0"),
        (["--superlink", "sight"], "no SuperLink connection 'sight'"),
    ],
)
def test_mistakes_are_told_before_anything_is_submitted(
    submitted: list[Settings], words: list[str], said: str
):
    done = deploy(*words)
    assert done.exit_code == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert submitted == []
