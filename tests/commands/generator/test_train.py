"""``fedeas generator train`` as a user sees it."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from importlib import import_module

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fedeas_app.commands import app
from fedeas_app.generators import network
from fedeas_app.generators.checkpoint import step_of

# The package holds the command under the name of its module.
module = import_module("fedeas_app.commands.generator.train")
SHORT = ("--preset", "micro", "--steps", 50, "--batch-size", 4)
LINE = re.compile(
    r"step (\d+) of 50 · loss (\d\.\d{4}) · [\d,]+ images/s(?: · (\d:\d\d:\d\d) left)?"
)


@pytest.fixture(autouse=True)
def _micro_preset(monkeypatch):
    monkeypatch.setitem(network.PRESETS, "micro", network.Preset((8, 16), 1, (1,), 4, 2e-3))


@pytest.fixture
def run(command):
    def invoke(target, *arguments):
        return command("train", "--out", target, "--set", "dataset=digits", *arguments)

    return invoke


def test_a_training_that_nobody_watches_says_where_it_is(run, tmp_path):
    result = run(tmp_path / "a", *SHORT)
    assert result.exit_code == 0, result.stderr
    lines = [LINE.fullmatch(line) for line in result.stderr.splitlines()]
    assert all(lines), result.stderr  # and nothing else
    assert [int(line[1]) for line in lines] == [10, 20, 30, 40, 50]
    assert all(line[3] for line in lines[1:])
    assert lines[-1][3] == "0:00:00"
    assert str(tmp_path / "a") in result.stdout
    assert f"--set generator={tmp_path / 'a'}." in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_hint_can_be_pasted_into_a_shell(run, tmp_path):
    target = tmp_path / "a [red] é"
    result = run(target, *SHORT)
    assert result.exit_code == 0, result.stderr
    hint = result.stdout.rpartition("use it with ")[2].strip().removesuffix(".")
    assert shlex.split(hint) == ["--set", f"generator={target}"]


def test_the_card_names_the_dataset(run, tmp_path):
    run(tmp_path / "a", *SHORT)
    card = json.loads((tmp_path / "a" / "card.json").read_text())
    assert card["data"] == {
        "dataset": "digits",
        "revision": None,
        "split": "train",
        "images": 1437,
    }


def test_about_twenty_lines_whatever_the_steps(monkeypatch):
    heard = []
    monkeypatch.setattr(module.err, "print", lambda text, **_: heard.append(text))
    report = module._Report(module.progress_bar(disable=True), 10_000)
    for step in range(10, 10_001, 10):
        report(step, 0.5, 100.0)
    assert 20 <= len(heard) <= 22
    assert heard[-1].startswith("step 10,000 of 10,000 · loss 0.5000 · 100 images/s")


def test_the_options_reach_the_training(run, tmp_path):
    options = ["--label-dropout", 0.25, "--unshuffle", 2, "--learning-rate", 0.003]
    options += ["--precision", "bfloat16", "--samples-every", 20, "--set", "seed=5"]
    result = run(tmp_path / "a", *SHORT, *options)
    assert result.exit_code == 0, result.stderr
    training = json.loads((tmp_path / "a" / "card.json").read_text())["training"]
    assert training == {
        "preset": "micro",
        "steps": 50,
        "batch_size": 4,
        "seed": 5,
        "device": "cpu",
        "label_dropout": 0.25,
        "unshuffle": 2,
        "learning_rate": 0.003,
        "precision": "bfloat16",
    }
    pictures = sorted(path.name for path in (tmp_path / "a" / "samples").iterdir())
    assert pictures == [f"step-{step:07}.png" for step in (20, 40, 50)]


def test_the_same_command_continues(run, tmp_path, monkeypatch):
    report = module._Report.__call__

    def stop(self, step, *more):
        report(self, step, *more)
        if step == 30:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module._Report, "__call__", stop)
        stopped = run(tmp_path / "a", *SHORT, "--checkpoint-every", 25)
    assert stopped.exit_code == 130
    assert stopped.stderr.splitlines()[-1] == (
        "Interrupted; the last checkpoint is at step 25 of 50, and the same command continues from "
        "there."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a.training"]
    result = run(tmp_path / "a", *SHORT, "--checkpoint-every", 25)
    assert result.exit_code == 0, result.stderr
    assert "Continuing after step 25 of 50." in result.stderr
    assert "Interrupted" not in result.stderr
    assert "step 30 of 50" in result.stderr
    other = run(tmp_path / "b", *SHORT)
    assert other.exit_code == 0
    weights = "unet/diffusion_pytorch_model.safetensors"
    assert (tmp_path / "a" / weights).read_bytes() == (tmp_path / "b" / weights).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--preset", "huge"], "preset is 'huge'; tiny, small, cifar"),
        (["--precision", "half"], "precision is 'half'; auto, float32, bfloat16, float16"),
        (["--precision", "float16"], "precision is 'float16', which a CPU cannot train in"),
        (["--unshuffle", "3"], "which 8x8 pixels do not allow; set image-size to a multiple of 6"),
        (["--preset", "cifar", "--unshuffle", "2"], "multiple of 16"),
        (["--set", "dataset=/nowhere"], "/nowhere"),
        (["--set", "device=cuda:99"], "device is 'cuda:99'"),
        (["--set", "device=cuda:1", "--processes", "2"], "is one GPU, but --processes is 2"),
        (["--set", "nonsense=1"], "'nonsense'"),
    ],
)
def test_a_mistake_is_one_sentence(run, tmp_path, arguments, words):
    result = run(tmp_path / "a", *arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_what_exists_is_left_alone(run, tmp_path):
    result = run(tmp_path)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "exists already" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [["--steps", 49], ["--batch-size", 0], ["--label-dropout", 0.95], ["--label-dropout", -0.1],
     ["--unshuffle", 0], ["--processes", 0], ["--checkpoint-every", 0], ["--samples-every", 0],
     ["--learning-rate", -1]],
)  # fmt: skip
def test_a_number_out_of_range(run, tmp_path, arguments):
    result = run(tmp_path / "a", *arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_help_lists_the_options(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    result = CliRunner().invoke(app, ["generator", "train", "--help"])
    assert result.exit_code == 0
    for option in ("out", "set", "preset", "steps", "batch-size", "label-dropout", "unshuffle",
                   "learning-rate", "precision", "processes", "checkpoint-every",
                   "samples-every"):  # fmt: skip
        assert f"--{option}" in result.stdout
    assert "continues an interrupted training" in result.stdout


def test_a_bar_for_a_person(run, tmp_path, monkeypatch):
    console = Console(force_terminal=True, width=100, file=sys.stdout)
    monkeypatch.setattr(module, "err", console)
    monkeypatch.setattr("fedeas_app.commands.generator.drawing.err", console)
    result = run(tmp_path / "a", *SHORT)
    assert result.exit_code == 0
    assert "step 10 of 50" not in result.output


def line_of(cache_dir, *arguments):
    keys = ["--set", "dataset=digits", "--set", f"cache-dir={cache_dir}", "--set", "device=cpu"]
    command = [sys.executable, "-c", "from fedeas_app.commands import app; app()", "generator"]
    return [*command, *map(str, arguments), *keys]


def real(cache_dir, *arguments):
    return subprocess.run(
        line_of(cache_dir, *arguments),
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_library_warns_and_a_batch_must_be_shared_out(cache_dir, tmp_path):
    """Real processes; takes some seconds."""
    short = ["--steps", 50, "--out", tmp_path / "a"]
    uneven = real(cache_dir, "train", *short, "--batch-size", 5, "--processes", 2)
    assert uneven.returncode == 1
    assert uneven.stderr == (
        "Error: A batch of 5 images cannot be shared out evenly to 2 processes; use a --batch-size "
        "that 2 divides.\n"
    )
    trained = real(cache_dir, "train", *short, "--batch-size", 4, "--processes", 2)
    assert trained.returncode == 0, trained.stderr
    assert all(LINE.fullmatch(line) for line in trained.stderr.splitlines()), trained.stderr
    made = ["--out", tmp_path / "b", "--per-class", 1, "--set", f"generator={tmp_path / 'a'}"]
    sampled = real(cache_dir, "sample", *made)
    assert sampled.returncode == 0, sampled.stderr
    assert re.fullmatch(r"generating .* 10/10 0:00:0\d\n", sampled.stderr), sampled.stderr


@pytest.mark.parametrize(
    ("processes", "kill"),
    [
        (1, os.kill),
        (2, os.kill),
        pytest.param(2, os.killpg, marks=pytest.mark.long),  # all of them: test_processes.py
    ],
)
def test_ctrl_c_says_how_far_it_is(cache_dir, tmp_path, processes, kill):
    """Real processes, long before their first checkpoint is due; takes some seconds.

    The terminal sends Ctrl-C to all of them, a batch system to the first alone.
    """
    options = ["--out", tmp_path / "a", "--steps", 100_000, "--batch-size", 4]
    options += ["--processes", processes, "--checkpoint-every", 50_000]
    process = subprocess.Popen(
        line_of(cache_dir, "train", *options),
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stderr.readline().startswith("step 10 of 100,000")
        kill(process.pid, signal.SIGINT)
        rest = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert process.returncode == 130
    said = re.fullmatch(r"Interrupted; the last checkpoint is at step (\d+) of 100,000, .*\n", rest)
    assert said, rest
    assert step_of(tmp_path / "a.training") == int(said[1]) >= 10
