"""Runs whose processes are killed at random moments, and that go on until they are complete."""

import random
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from real_runs import BIN, MARK, processes, rounds_of

from fedeas_app.runs.reading import read_run

ROUNDS, MANY = 12, 120  # many: enough for ten kills before the last one
JOB = (
    "--set=num-clients=4", "--set=local-epochs=1", "--set=alpha=0.3", "--set=policy=none",
)  # fmt: skip
MORE = {"fedavgm": ["--set=server-learning-rate=0.1"]}  # with 1 it diverges before the last round
TARGETS = {
    "server": lambda process: "flwr-simulation" in " ".join(process.cmdline()),
    "superlink": lambda process: "flower-superlink" in " ".join(process.cmdline()),
    "worker": lambda process: "ClientAppActor" in process.name(),
}


class Kill(NamedTuple):
    """What is killed, and when: so many seconds after so many rounds are recorded."""

    target: str
    rounds: int
    seconds: float


class Jobs:
    """Runs of one job below a directory."""

    def __init__(self, directory: Path, cache: Path, environment: dict[str, str]) -> None:
        self._runs = directory / "runs"
        self._places = [f"--set=cache-dir={cache}", f"--set=output-dir={self._runs}"]
        self._environment = environment

    def start(self, name: str, *words: str) -> "subprocess.Popen[str]":
        """Begin a run, or go on with it where it has a record."""
        record = self._runs / name
        again = ["--resume", str(record)] if (record / "summary.json").is_file() else None
        begun = [*JOB, *words, *self._places, f"--set=run-name={name}"]
        return subprocess.Popen(
            [str(BIN / "fedeas"), "run", *(again or begun)], env=self._environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def complete(self, name: str, *words: str) -> Path:
        """Run it to its end."""
        run = self.start(name, *words)
        complaint = run.communicate(timeout=900)[1]
        assert run.returncode == 0, complaint
        return self._runs / name

    def kill(self, name: str, kill: Kill, *words: str) -> None:
        """Start it, and kill one of its processes; all others then end by themselves."""
        with self.start(name, *words) as run:
            self._wait_for(name, kill, run)
            self._shoot(kill.target, run)
            run.communicate(timeout=120)
        assert run.returncode != 0, f"the run was over before {kill}"
        self._nothing_is_left()
        if (self._runs / name / "summary.json").is_file():
            read_run(self._runs / name)  # no file of it is half written

    def _wait_for(self, name: str, kill: Kill, run: "subprocess.Popen[str]") -> None:
        already = len(rounds_of(self._runs / name)) if kill.rounds else 0
        deadline = time.monotonic() + 240
        while run.poll() is None and time.monotonic() < deadline:
            if len(rounds_of(self._runs / name)) >= already + kill.rounds:
                break
            time.sleep(0.05)
        time.sleep(kill.seconds)

    def _shoot(self, target: str, run: "subprocess.Popen[str]") -> None:
        if target == "starter":
            run.kill()
            return
        for process in processes(self._environment[MARK]):
            try:
                if TARGETS[target](process):
                    process.kill()
                    return
            except psutil.Error:
                continue
        run.kill()  # not there yet, or no more

    def _nothing_is_left(self) -> None:
        deadline = time.monotonic() + 60
        while processes(self._environment[MARK]) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not processes(self._environment[MARK])


def go_through(jobs: Jobs, strategy: str, rounds: int, kills: Sequence[Kill]) -> None:
    """Kill a run again and again, let it go on, and compare it with one that was left in peace."""
    words = [f"--set=strategy={strategy}", f"--set=rounds={rounds}", *MORE.get(strategy, [])]
    whole = jobs.complete("whole", *words)
    for kill in kills:
        jobs.kill("killed", kill, *words)
    killed = jobs.complete("killed", *words)
    files = [run / "model.safetensors" for run in (whole, killed)]
    assert files[0].read_bytes() == files[1].read_bytes()
    for one, other in zip(rounds_of(whole), rounds_of(killed), strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.fixture
def jobs(tmp_path: Path, cache: Path, marked_environment: dict[str, str]) -> Jobs:
    return Jobs(tmp_path, cache, marked_environment)


def test_a_killed_run_goes_on_and_ends_in_the_same_bits(jobs: Jobs) -> None:
    go_through(jobs, "scaffold", ROUNDS, [Kill("starter", 4, 0.1)])


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["fedoui", "scaffold", "moon", "fedadam", "fedavgm"])
def test_ten_kills_at_random_moments_lose_nothing(jobs: Jobs, strategy: str) -> None:
    moments = random.Random(strategy)  # noqa: S311  # no secret: moments that repeat
    kills = [
        Kill(target, moments.choice([0, 1, 2]), moments.uniform(0, 3) if moments.random() < 0.8
             else moments.uniform(0, 12))
        for target in [*TARGETS, "starter"] * 2 + ["server", "superlink"]
    ]  # fmt: skip
    moments.shuffle(kills)
    go_through(jobs, strategy, MANY, kills)
