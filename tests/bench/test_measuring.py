"""What watches a run sees all of it, and knows which process is which."""

import importlib
import inspect
import subprocess
import sys
import time

import pytest
import typer
from measuring import MARK, Dataset, PeakMemory, Watch, found, marked, print_goals, role, words
from suite import TAKES_IMAGES
from typer.testing import CliRunner


class Counting(Watch):
    def __init__(self, pause):
        super().__init__(pause)
        self.looks = 0

    def look(self):
        self.looks += 1


def test_a_watch_looks_again_and_again_and_once_more_at_the_end():
    with Counting(0.01) as often:
        time.sleep(0.2)
    with Counting(60.0) as once:
        pass
    assert often.looks > 3
    assert once.looks == 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["python3", "flower-superlink", "--insecure"], "SuperLink"),
        (["python3", "flower-superexec", "--insecure"], "SuperExec"),
        (["python3", "flwr-simulation", "--token", "x"], "server and simulation"),
        (["python3", "flwr", "run", "app", "local"], "`flwr run`, which follows the log"),
        (["python", "-u", "default_worker.py"], "a worker with its clients"),
        (["ray::ClientAppActor.run", "", ""], "a worker with its clients"),
        (["ray::DashboardAgent"], "Ray's own"),
        (["gcs_server", "--log_dir=x"], "Ray's own"),
        (["raylet", "--python_worker_command=python default_worker.py"], "Ray's own"),
        (["python3", "-u", "log_monitor.py"], "Ray's own"),
        (["python", "floor.py", "config.toml"], "the floor"),
        (["python", "fedeas", "run", "flwr-simulation"], "the command line and its guard"),
        (["python", "-m", "fedeas_app.processes"], "the command line and its guard"),
        (["sleep", "600"], "other"),
        ([], "other"),
    ],
)
def test_a_process_is_known_by_the_beginning_of_its_command_line(line, expected):
    assert role(line) == expected


def test_a_process_that_lost_its_mark_is_known_by_its_parent():
    lost = "import subprocess, sys; subprocess.run(['sleep', '60'], env={})"
    with subprocess.Popen([sys.executable, "-c", lost], env={MARK: "some"}) as parent:
        try:
            while ["sleep", "60"] not in map(words, found := marked("some")):
                time.sleep(0.02)
            assert [process.pid for process in found][:1] == [parent.pid]
            assert marked("other") == []
        finally:
            for process in marked("some"):
                process.kill()


def test_the_peak_is_that_of_the_largest_moment_and_says_whose(monkeypatch):
    moments = iter([{"flwr": 3, "raylet": 4}, {"flwr": 5, "raylet": 5}, {"raylet": 9}])
    sizes = {}

    def processes():
        sizes.update(now := next(moments))
        return list(now)

    monkeypatch.setattr("measuring.words", lambda process: [process])
    monkeypatch.setattr("measuring.proportional_size", sizes.get)
    memory = PeakMemory(processes)
    for _ in range(3):
        memory.look()
    assert memory.peak == 10
    assert dict(memory.parts) == {"`flwr run`, which follows the log": 5, "Ray's own": 5}


def test_goals_are_a_table_that_says_which_are_met(capsys):
    print_goals([("at most 2", "1.9", True), ("at most 2", "2.1", False)])
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "| at most 2 | 1.9 | met |",
        "| at most 2 | 2.1 | missed |",
    ]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory with a data set in it, which is also at home, and one by the digits' name."""
    for name in ("images", "digits"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("dataset", ["images", "./images", "~/images"])
def test_a_path_that_is_there_is_made_whole(here, dataset):
    assert found(dataset) == str(here / "images")
    assert found(str(here / "images")) == str(here / "images")


@pytest.mark.parametrize("dataset", ["", "digits", "uoft-cs/cifar10", "./nowhere"])
def test_any_other_name_stays(here, dataset):
    assert found(dataset) == dataset


@pytest.mark.parametrize("script", ["suite.py", *TAKES_IMAGES])
def test_all_that_take_a_dataset_find_it(script):
    main = importlib.import_module(script.removesuffix(".py")).main
    assert inspect.signature(main).parameters["dataset"].annotation == Dataset


@pytest.mark.parametrize(("words", "expected"), [([], "digits"), (["--dataset=images"], "{}")])
def test_a_command_line_is_given_it_whole(here, words, expected):
    def main(dataset: Dataset = "digits") -> None:
        print(dataset)

    app = typer.Typer()
    app.command()(main)
    told = CliRunner().invoke(app, words).output.strip()
    assert told == expected.format(here / "images")
