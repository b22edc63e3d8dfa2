"""``fedeas compare`` as a user sees it, with runs that are made up."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tomli_w
from typer.testing import CliRunner

from fedeas_app.commands import app, compare
from fedeas_app.comparison import drawing
from fedeas_app.comparison.reading import read_comparison
from fedeas_app.errors import UserError
from fedeas_app.figures import Picture
from fedeas_app.forecast import Forecast

FEDEAS = Path(sys.executable).with_name("fedeas")
ACCURACY = {"fedavg": 0.5, "fedoui": 0.75, "moon": 0.25}


class Runs:
    """In the place of simulations: remembers what was asked for and leaves records."""

    def __init__(self):
        self.asked = []
        self.troubles = {}
        self.digest = "p"

    def foresee(self, settings):
        counts = np.array([[5, 0], [0, 5]])
        return Forecast(settings.policy, 12.0, counts, 0 * counts, {})

    def execute(self, settings, expected, observe):
        self.asked.append((settings.strategy, settings.policy, settings.seed))
        trouble = self.troubles.get((settings.strategy, settings.seed))
        if trouble is not None:
            raise trouble
        directory = settings.output_path / settings.run_name
        directory.mkdir(parents=True)
        observe(directory)
        self.leave_record(directory, settings)
        observe(directory)

    def leave_record(self, directory, settings):
        accuracy = ACCURACY[settings.strategy] + settings.seed / 100
        (directory / "config.toml").write_text(
            tomli_w.dumps({k: v for k, v in settings.to_flat().items() if k != "run-name"})
        )
        lines = [
            {"round": n, "accuracy": accuracy, "participants": [], "failures": {}}
            for n in range(1, settings.rounds + 1)
        ]
        (directory / "preparation.jsonl").write_text('{"partition-id": 0, "synthetic": 3}\n')
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (directory / "rounds.jsonl").write_text(text)
        summary = {"final": accuracy, "best": accuracy, "auc": accuracy}
        seconds = {"load": 1.0, "prepare": 2.0, "train": 3.0}
        seconds |= {"generator": 60.0} if settings.trains_generator else {}
        self.write(
            directory / "summary.json", {"status": "completed"} | summary | {"seconds": seconds}
        )
        self.write(directory / "plan.json", {"synthetic": 0, "made": 0})
        self.write(directory / "manifest.json", {"digests": {"partition": self.digest}})

    @staticmethod
    def write(path, content):
        path.write_text(json.dumps(content))


@pytest.fixture
def runs(monkeypatch):
    made_up = Runs()
    monkeypatch.setattr(compare, "foresee", made_up.foresee)
    monkeypatch.setattr(compare, "execute", made_up.execute)
    return made_up


@pytest.fixture
def fedeas(monkeypatch, tmp_path, runs):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments):
        return CliRunner().invoke(app, ["compare", *map(str, arguments)])

    return invoke


FLAGS = ("--vary", "strategy=fedavg,fedoui", "--set", "policy=none", "--vary", "seed=0,1")
PAIRED = ("--baseline", "strategy=fedavg,policy=none", "--target", "0.6")


def test_flags_alone_make_a_comparison(fedeas, runs, tmp_path):
    done = fedeas(*FLAGS, *PAIRED, "--out", "here")
    assert done.exit_code == 0, done.output
    assert runs.asked == [
        ("fedavg", "none", 0), ("fedoui", "none", 0), ("fedavg", "none", 1), ("fedoui", "none", 1),
    ]  # fmt: skip
    assert "2 arms over 2 seeds: 4 cells, in" in done.stdout
    assert "fedoui, seed 1: Test accuracy: final 76.00%" in done.stdout
    assert "fedavg 2 50.5 ± 0.7 50.5 ± 0.7 0.505 ± 0.007 – " in " ".join(done.stdout.split())
    assert "Against fedavg" in done.stdout
    assert "+25.0 [+25.0, +25.0]" in done.stdout
    assert "Cells that share a seed and what describes the data had the same data" in done.stdout
    assert {path.name for path in (tmp_path / "here").iterdir()} >= {
        "cells", "comparison.json", "grid.toml", "table.csv", "table.md",
    }  # fmt: skip


def test_a_second_start_runs_nothing(fedeas, runs):
    first = fedeas(*FLAGS, "--out", "here")
    runs.asked.clear()
    second = fedeas(*FLAGS, "--out", "here")
    assert second.exit_code == 0
    assert not runs.asked
    assert "4 cells, 4 of them finished already" in second.stdout
    assert first.stdout.split("Test accuracy\n")[1] == second.stdout.split("Test accuracy\n")[1]


def test_the_time_left_is_told_by_all_phases_of_what_is_finished(fedeas, monkeypatch):
    told = []

    class Watched(compare.GridProgress):
        def __init__(self, progress, total, finished, seconds):
            told.append(seconds)
            super().__init__(progress, total, finished, seconds)

    monkeypatch.setattr(compare, "GridProgress", Watched)
    for _ in range(2):
        vary = ("--vary", "generator=digits,federated", "--set", "strategy=fedavg")
        assert fedeas(*vary, "--out", "here").exit_code == 0
    assert [sorted(seconds) for seconds in told] == [[], [6.0, 66.0]]


def test_a_directory_goes_on_with_its_own_grid(fedeas, runs, tmp_path):
    runs.troubles = {("fedavg", 1): KeyboardInterrupt()}
    broken_off = fedeas(*FLAGS, *PAIRED, "--out", "here")
    assert broken_off.exit_code == 1
    assert "Error: Interrupted with 2 of 4 cells finished, kept in" in broken_off.stderr
    assert f"fedeas compare {tmp_path / 'here'} runs the rest" in broken_off.stderr
    runs.troubles = {}
    runs.asked.clear()
    again = fedeas("here")
    assert again.exit_code == 0, again.output
    assert runs.asked == [("fedavg", "none", 1), ("fedoui", "none", 1)]
    comparison = read_comparison(tmp_path / "here")
    assert (comparison.baseline, comparison.target) == ("fedavg", 0.6)
    grown = fedeas("here", "--vary", "seed=0,1,2")
    assert grown.exit_code == 0
    assert runs.asked[2:] == [("fedavg", "none", 2), ("fedoui", "none", 2)]


def test_a_file_says_the_same_and_flags_override_it(fedeas, runs, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'config = "cifar10"\nbaseline = {strategy = "fedavg"}\n[set]\nrounds = 3\n'
        f'output-dir = "{tmp_path}/records"\n'
        '[[grid]]\nstrategy = ["fedavg", "moon"]\nseed = [0]\n'
    )
    done = fedeas("mine.toml", "--set", "policy=none", "--set", "rounds=4", "--vary", "seed=7")
    assert done.exit_code == 0, done.output
    assert runs.asked == [("fedavg", "none", 7), ("moon", "none", 7)]
    comparison = read_comparison(tmp_path / "records/mine")
    (run,) = comparison.arm("moon").runs
    assert (run.settings.rounds, run.settings.dataset) == (4, "uoft-cs/cifar10")
    assert comparison.arm("moon").baseline == "fedavg"


def test_a_failure_is_reported_and_does_not_stop_the_rest(fedeas, runs, tmp_path):
    runs.troubles = {("fedoui", 0): UserError("The generator is missing.")}
    done = fedeas(*FLAGS, "--out", "here")
    assert done.exit_code == 1
    assert len(runs.asked) == 4
    assert "fedoui, seed 0: failed. The generator is missing." in done.stdout
    assert "Error: 1 of 4 cells failed (fedoui, seed 0)" in done.stderr
    assert "The generator is missing." in (tmp_path / "here/table.md").read_text()


def test_cells_that_do_not_fit_together_are_complained_about(fedeas, runs):
    fedeas(*FLAGS, "--out", "here")
    runs.digest = "another"
    done = fedeas(*FLAGS, "--vary", "strategy=fedavg,moon", "--out", "here")
    assert done.exit_code == 1
    assert "Error: The cells cannot be compared: the digest of partition of moon-" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--vary", "strategy=fedavg"], "with --out DIR"),
        (["--vary", "strategy", "--out", "x"], "--vary takes KEY=VALUE"),
        (["--vary", "strategie=a", "--out", "x"], "did you mean 'strategy'"),
        (["--vary", "beta=-1,-2,6", "--out", "x"], "(in beta=-1). beta is -2.0; a number ≥ 0"),
        (["--baseline", "fedavg", "--out", "x"], "--baseline takes KEY=VALUE"),
        (["--baseline", "policy=full", "--out", "x"], "policy=full is none of the arms"),
        (["--target", "80", "--out", "x"], "The target is 80.0"),
        (["--target", "80", "--out", "x"], "up to 1 is allowed: write 0.8 for 80 %."),
        (["--vary", "seed=", "--out", "x"], "--vary gives seed an empty value; a whole number"),
        (["--vary", "seed=0,,1", "--out", "x"], "--vary gives seed an empty value"),
        (["--set", "alpha=", "--out", "x"], "--set gives alpha an empty value; a number > 0"),
        (["--baseline", "strategy=", "--out", "x"], "--baseline gives strategy an empty value"),
        (["empty.toml"], "empty.toml is empty; write what is to be compared below [[grid]]"),
        (["--vary", "seed=0", "--set", "seed=1", "--out", "x"], "but the grid varies it"),
        (["--config", "nothing", "--out", "x"], "no preset of that name"),
        (["missing.toml"], "missing.toml cannot be read"),
        (["."], "is not a comparison's directory"),
        ([".", "--config", "cifar10"], "keeps its own configuration"),
        (["--vary", "seed=0,1", "--out", "full"], "something other than a comparison"),
    ],
)
def test_mistakes_are_told_in_a_sentence_before_anything_starts(
    fedeas, runs, tmp_path, arguments, words
):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis.tex").touch()
    (tmp_path / "empty.toml").write_text("# to be written\n")
    done = fedeas(*arguments)
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: ")
    assert words in done.stderr
    assert not runs.asked
    assert not (tmp_path / "x").exists()


def test_texts_with_commas_are_varied_as_a_list(fedeas, runs, tmp_path):
    done = fedeas(
        "--vary", 'generator-classes=["a,b", "c,d"]', "--set", "strategy=moon", "--out", "x"
    )
    assert done.exit_code == 0, done.output
    labels = [arm.label for arm in read_comparison(tmp_path / "x").arms]
    assert labels == ["generator-classes=a,b", "generator-classes=c,d"]


def test_nothing_is_said_of_agreement_where_nothing_was_compared(fedeas):
    done = fedeas("--set", "strategy=fedavg", "--vary", "alpha=0.1,1", "--out", "here")
    assert done.exit_code == 0, done.output
    assert "Cells that share" not in done.stdout


def test_a_key_that_is_varied_twice_has_all_values(fedeas, runs):
    fedeas("--vary", "strategy=fedavg", "--vary", "strategy=fedoui,moon", "--out", "here")
    assert [strategy for strategy, *_ in runs.asked] == ["fedavg", "fedoui", "moon"]


def test_figures_are_those_of_the_last_start(fedeas, tmp_path):
    fedeas(*FLAGS, "--out", "here")
    accuracy = tmp_path / "here/figures/accuracy.svg"
    before = accuracy.read_bytes()
    (tmp_path / "here/figures/stale.svg").touch()
    fedeas("here", "--vary", "seed=0")
    assert accuracy.read_bytes() != before
    assert not (tmp_path / "here/figures/stale.svg").exists()
    assert not (tmp_path / "here/.figures").exists()


def test_a_figure_that_cannot_be_drawn_is_named_below_the_tables(fedeas, monkeypatch, tmp_path):
    def paint(theme):
        raise ValueError("no such letter\nand more")

    broken = Picture("broken", "Broken", "", "", paint)
    monkeypatch.setattr(drawing, "comparison_figures", lambda comparison: [broken])
    done = fedeas(*FLAGS, "--out", "here")
    assert done.exit_code == 0, done.output
    line = "The figure 'Broken' cannot be drawn (no such letter)."
    assert done.stdout.index("Test accuracy\n") < done.stdout.index(line)


def test_what_is_finished_is_shown_without_torch(fedeas, tmp_path):
    fedeas(*FLAGS, "--out", "here")
    program = (
        "import sys; from fedeas_app.commands import app; app(standalone_mode=False);"
        "assert not {'torch', 'flwr'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "compare", str(tmp_path / "here")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "4 of them finished already" in done.stdout


def test_what_holds_for_every_cell_is_told_once(fedeas):
    done = fedeas("--set", "strategie=a", "--set", "rounds=0", "--vary", "beta=-1,-2", "--out", "x")
    assert done.stderr.count("Unknown key 'strategie'") == 1
    assert done.stderr.count("rounds is 0") == 1
    assert "(in beta=-1). " in done.stderr
    assert "(in beta=-2)." in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "One cell: fedoui fedeas, seed 0, in {}; nothing is varied, so that there is nothing"),
        (["--vary", "strategy=fedavg,fedoui"], "2 arms over seed 0 alone: 2 cells, in {}; with a "),
        (["--vary", "seed=3,4"], "1 arm over 2 seeds: 2 cells, in {}\n"),
    ],
)
def test_what_is_going_to_run_is_said_before_it_runs(fedeas, tmp_path, arguments, said):
    done = fedeas(*arguments, "--out", "here")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(said.format(tmp_path / "here"))


def test_a_text_may_be_empty(fedeas, tmp_path):
    fedeas("--vary", "dataset-revision=,main", "--out", "here")
    (one, other) = read_comparison(tmp_path / "here").arms
    assert [arm.values for arm in (one, other)] == [
        {"dataset-revision": ""}, {"dataset-revision": "main"},
    ]  # fmt: skip
