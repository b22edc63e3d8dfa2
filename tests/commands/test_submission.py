"""Runs on a SuperLink that is there already, with a Flower command that says what it is told."""

import json
import stat
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from fedeas_app.commands import submission
from fedeas_app.commands.submission import (
    Outcome,
    follow,
    look,
    require_connection,
    require_paths_for_others,
    submit,
)
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings

FLWR = """#!{python}
import json, pathlib, shutil, sys
here = pathlib.Path(__file__).parent
calls = here / "calls.jsonl"
with open(calls, "a") as stream:
    print(json.dumps(sys.argv[1:]), file=stream)
if sys.argv[1] == "run":
    names = sorted(path.name for path in pathlib.Path(sys.argv[2]).iterdir())
    (here / "app.json").write_text(json.dumps(names))
if "--run-config" in sys.argv:
    shutil.copy(sys.argv[sys.argv.index("--run-config") + 1], here / "run.toml")
answers = json.loads((here / "answers.json").read_text())[sys.argv[1]]
seen = sum(json.loads(line)[0] == sys.argv[1] for line in calls.read_text().splitlines())
code, text = answers[min(seen, len(answers)) - 1]
print(text)
sys.exit(code)
"""

Answers = dict[str, list[tuple[int, str]]]


@pytest.fixture
def flwr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], Path]:
    """Put a command in the place of ``flwr`` that gives one answer after the other."""
    script = tmp_path / "flwr"
    script.write_text(FLWR.format(python=sys.executable))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(submission, "tool", lambda name: str(tmp_path / name))
    monkeypatch.setattr(submission, "_POLL", 0.0)

    def answer(answers: Answers) -> Path:
        (tmp_path / "answers.json").write_text(json.dumps(answers))
        return tmp_path

    return answer


def calls(directory: Path) -> list[list[str]]:
    return [json.loads(line) for line in (directory / "calls.jsonl").read_text().splitlines()]


def listed(status: str, details: str = "") -> tuple[int, str]:
    run = {"run-id": "7", "status": status, "status-details": details}
    return 0, json.dumps({"success": True, "runs": [run]})


def refused(message: str) -> tuple[int, str]:
    return 1, json.dumps({"success": False, "error-message": message})


@pytest.fixture
def connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    path = tmp_path / "config.toml"
    path.write_text(
        '[superlink]\ndefault = "local"\n[superlink.local]\naddress = ":local:"\n'
        '[superlink.hospitals]\naddress = "127.0.0.1:8000"\nroot-certificates = "/x/ca.crt"\n'
    )
    return path


@pytest.mark.usefixtures("connections")
def test_a_known_connection_is_taken():
    require_connection("hospitals")


@pytest.mark.usefixtures("connections")
@pytest.mark.parametrize("name", ["hospital", "default"])
def test_an_unknown_connection_is_told_with_the_known_ones(name: str):
    with pytest.raises(UserError, match=f"no SuperLink connection '{name}' .*local, hospitals"):
        require_connection(name)


def test_without_any_configuration_there_is_no_connection(connections: Path):
    connections.unlink()
    with pytest.raises(UserError, match="it has none"):
        require_connection("hospitals")


def test_a_damaged_configuration_is_told(connections: Path):
    connections.write_text("[superlink")
    with pytest.raises(UserError, match=r"config\.toml cannot be read"):
        require_connection("hospitals")


@pytest.mark.usefixtures("connections")
def test_flowers_own_simulation_is_no_superlink():
    with pytest.raises(UserError, match="leave --superlink out"):
        require_connection("local")


@pytest.mark.parametrize(
    ("key", "value"), [("dataset", "./mine"), ("generator", "here/is/it"), ("pool_dataset", "../x")]
)
def test_relative_paths_mean_nothing_on_other_machines(
    configure: Callable[..., Settings], key: str, value: str
):
    with pytest.raises(UserError, match=f"{key.replace('_', '-')} is '{value}'; on other machines"):
        require_paths_for_others(configure(**{key: value}))


def test_other_paths_and_hub_ids_do(configure: Callable[..., Settings]):
    require_paths_for_others(configure(dataset="/data/mine"))
    require_paths_for_others(configure(dataset="uoft-cs/cifar10", generator="~/generators/x"))


def test_the_configuration_reaches_flower_whole(
    configure: Callable[..., Settings], flwr: Callable[[Answers], Path]
):
    settings = configure(num_clients="auto", alpha=0.25)
    place = flwr({"run": [(0, json.dumps({"success": True, "run-id": "18446744073709551615"}))]})
    assert submit("hospitals", settings) == 2**64 - 1
    (words,) = calls(place)
    assert (words[0], words[2]) == ("run", "hospitals")
    assert {"client_app.py", "server_app.py"} <= set(json.loads((place / "app.json").read_text()))
    assert not Path(words[1]).exists()  # it was put together for Flower to bundle
    assert Settings.parse(tomllib.loads((place / "run.toml").read_text())) == settings


@pytest.mark.parametrize(
    "answer",
    [
        refused("Using SuperLink: x (y:1)\n\nConnection to the SuperLink\nis unavailable."),
        (1, "Error: Connection to the SuperLink is unavailable."),
    ],
)
def test_a_superlink_that_cannot_be_reached_is_told_in_one_sentence(
    configure: Callable[..., Settings], flwr: Callable[[Answers], Path], answer: tuple[int, str]
):
    flwr({"run": [answer]})
    with pytest.raises(UserError) as caught:
        submit("hospitals", configure())
    text = "Flower refuses `flwr run`: Connection to the SuperLink is unavailable."
    assert str(caught.value) == text


def test_the_log_is_shown_and_then_the_outcome_asked_for(
    flwr: Callable[[Answers], Path], capfd: pytest.CaptureFixture[str]
):
    place = flwr({"log": [(0, "round 1")], "ls": [listed("finished:completed")]})
    assert follow("hospitals", 7) == Outcome("finished:completed", "")
    shown = capfd.readouterr()
    assert "round 1" in shown.out
    assert "broken off" not in shown.err
    asked = ["ls", "hospitals", "--run-id", "7", "--format", "json"]
    assert calls(place) == [["log", "7", "hospitals", "--stream"], asked]


def test_a_broken_log_does_not_end_the_wait(
    flwr: Callable[[Answers], Path], capfd: pytest.CaptureFixture[str]
):
    gone = refused("unavailable")
    flwr({"log": [(1, "")], "ls": [gone, listed("running"), gone, listed("finished:stopped")]})
    assert follow("hospitals", 7).status == "finished:stopped"
    assert "broken off" in capfd.readouterr().err


def test_a_superlink_that_stays_away_ends_it(
    flwr: Callable[[Answers], Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(submission, "_PATIENCE", 0.0)
    flwr({"log": [(1, "")], "ls": [refused("unavailable")]})
    with pytest.raises(UserError, match="unavailable"):
        follow("hospitals", 7)


def test_the_outcome_tells_what_flowers_exit_status_does_not(flwr: Callable[[Answers], Path]):
    flwr({"ls": [listed("finished:failed", "ServerApp failed with exception: No data.")]})
    outcome = look("hospitals", 7)
    assert outcome.over
    with pytest.raises(UserError) as caught:
        outcome.require_completion()
    assert str(caught.value) == "The run has failed: No data."


def test_only_a_completed_run_is_one():
    Outcome("finished:completed", "").require_completion()
    assert not Outcome("running", "").over
    with pytest.raises(UserError) as caught:
        Outcome("finished:stopped", "").require_completion()
    assert str(caught.value) == "The run has stopped."
