"""``fedeas run`` on real processes: what it leaves, what it says, how it ends."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from real_runs import BIN, MARK, Command, processes
from safetensors.numpy import load_file, save_file

from fedeas_app import budget, data
from fedeas_app.checkpoint import load_checkpoint
from fedeas_app.generators import pretrained
from fedeas_app.settings import Settings, read_toml

SMALL = (
    "--set=num-clients=4", "--set=rounds=2", "--set=local-epochs=1", "--set=alpha=0.3",
    "--set=sampler-steps=5",
)  # fmt: skip
CIFAR10 = Path(__file__).parents[3] / "shared/data/uoft-cs/cifar10"


def rounds_of(record: Path) -> list[dict]:
    return [json.loads(line) for line in (record / "rounds.jsonl").read_text().splitlines()]


def test_one_seed_gives_the_same_bits_and_a_second_run_generates_nothing(
    fedeas: Command, tmp_path: Path, marked_environment: dict[str, str]
) -> None:
    own_cache = f"--set=cache-dir={tmp_path / 'cache'}"  # other tests make the same images
    for name in ("first", "second"):
        done = fedeas("run", *SMALL, own_cache, f"--set=run-name={name}")
        assert done.returncode == 0, done.stdout + done.stderr
    first, second = tmp_path / "runs/first", tmp_path / "runs/second"
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()
    for one, other in zip(rounds_of(first), rounds_of(second), strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    plan = json.loads((first / "plan.json").read_text())
    assert plan["made"] == plan["synthetic"] > 0
    assert json.loads((second / "plan.json").read_text())["made"] == 0
    assert plan["synthetic"] == independent_total(first)
    check_record(first)
    assert not processes(marked_environment[MARK])


def independent_total(record: Path) -> int:
    """Work out FedEAS's total from the labels, class by class."""
    settings = Settings.parse(read_toml(record / "config.toml"))
    train = data.load_split(settings, "train")
    total = 0
    for part in data.partition(train.labels, 4, settings):
        n = np.bincount(train.labels[part], minlength=10)
        p = n[n > 0] / n.sum()
        entropy = -(p * np.log(p)).sum() / np.log(10)
        b = int(np.floor(np.sqrt(n.sum() / 10) * (1 - entropy) * 12 + 1e-9))
        total += int(np.maximum(0, b - n).sum())
    return total


def check_record(record: Path) -> None:
    manifest = json.loads((record / "manifest.json").read_text())
    assert manifest["versions"]["flwr"].startswith("1.42.")
    assert all(manifest["digests"].values())
    lines = rounds_of(record)
    assert [line["round"] for line in lines] == [0, 1, 2]
    for line in lines[1:]:
        assert [p["partition"] for p in line["participants"]] == [0, 1, 2, 3]
        assert sum(p["weight"] for p in line["participants"]) == pytest.approx(1)
        assert all(0 <= p["oui"] <= 1 and 0 <= p["score"] <= 1 for p in line["participants"])
    summary = json.loads((record / "summary.json").read_text())
    assert summary["status"] == "completed"
    assert summary["final"] == lines[-1]["accuracy"]
    assert set(load_file(record / "model.safetensors")) >= {"hidden.weight", "output.bias"}
    with Image.open(record / "accuracy.png") as picture:
        assert picture.width == 1040
    with Image.open(record / "samples.png") as sheet:
        assert sheet.height == 10 * (64 + 2) + 2  # a row a class


@pytest.mark.parametrize("strategy", ["scaffold", pytest.param("moon", marks=pytest.mark.long)])
def test_what_clients_keep_reaches_their_next_round_and_is_gone_after_the_run(
    fedeas: Command, tmp_path: Path, cache: Path, strategy: str
) -> None:
    run_with_states(fedeas, strategy, "r")
    lines = rounds_of(tmp_path / "runs/r")[1:]
    assert [[p["state-lost"] for p in line["participants"]] for line in lines] == [[0] * 4] * 3
    assert not list((cache / "client-states").iterdir())


@pytest.mark.long  # in one process: test_server_app.py
@pytest.mark.parametrize("strategy", ["scaffold", "moon"])
def test_what_clients_keep_gives_the_same_bits_again(
    fedeas: Command, tmp_path: Path, strategy: str
) -> None:
    for name in ("first", "second"):
        run_with_states(fedeas, strategy, name)
    first, second = tmp_path / "runs/first", tmp_path / "runs/second"
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()


def run_with_states(fedeas: Command, strategy: str, name: str) -> None:
    keys = [f"--set=strategy={strategy}", "--set=policy=none", f"--set=run-name={name}"]
    done = fedeas("run", "digits", "--set=num-clients=4", "--set=rounds=3", *keys)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long  # in one process: test_server_app.py; what a round samples: test_strategy_base.py
def test_other_seeds_and_policies_run(fedeas: Command, tmp_path: Path) -> None:
    done = fedeas(
        "run", *SMALL, "--set=seed=1", "--set=policy=missing-only", "--set=strategy=fedavg",
        "--set=fraction-train=0.5", "--set=run-name=r",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    plan = json.loads((tmp_path / "runs/r/plan.json").read_text())
    settings = Settings.parse(read_toml(tmp_path / "runs/r/config.toml"))
    train = data.load_split(settings, "train")
    parts = data.partition(train.labels, 4, settings)
    counts = data.counts(train.labels, parts, 10)
    expected = budget.allocate(counts, "missing-only", beta=12.0).sum(axis=1)
    assert [client["synthetic"] for client in plan["clients"]] == expected.tolist()
    assert all(len(line["participants"]) == 2 for line in rounds_of(tmp_path / "runs/r")[1:])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set=beta=-1"], ["beta is -1", "≥ 0"]),
        (["--set=betta=1"], ["'betta'", "did you mean 'beta'"]),
        (["--set=dataset=./nowhere"], ["nowhere"]),
        (["--set=num-clients=3000"], ["3000 clients", "1437"]),
        (["--set=output-dir=/dev/null/runs"], ["/dev/null/runs", "cannot be written"]),
        (["--set=cache-dir=/dev/null/cache"], ["/dev/null/cache", "cannot be written"]),
        (["--set=alpha=0.001", "--set=num-clients=50"], ["alpha", "50", "min-partition-size"]),
    ],
)
def test_mistakes_are_told_in_one_sentence_before_anything_starts(
    fedeas: Command, tmp_path: Path, options: list[str], words: list[str]
) -> None:
    done = fedeas("run", *SMALL, *options)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert all(word in done.stderr for word in words), done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_missing_generator_is_told_before_the_run(
    fedeas: Command, tmp_path: Path, marked_environment: dict[str, str]
) -> None:
    done = fedeas("run", *SMALL, "--set=generator=./missing", "--set=run-name=r")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: The generator")
    assert str(tmp_path / "missing") in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "runs/r").exists()
    assert not processes(marked_environment[MARK])


def test_a_failed_run_says_why_and_leaves_no_process(
    fedeas: Command, tmp_path: Path, marked_environment: dict[str, str]
) -> None:
    generator = broken_generator(tmp_path)
    done = fedeas("run", *SMALL, f"--set=generator={generator}", "--set=run-name=r")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: The run failed: query.prepare failed: The generator")
    assert done.stderr.count("not finite") == 1  # one reason, however many clients
    assert "(4 clients)" in done.stderr
    assert "Traceback" not in done.stderr
    summary = json.loads((tmp_path / "runs/r/summary.json").read_text())
    assert summary["status"] == "failed"
    assert "not finite" in summary["reason"]
    assert (tmp_path / "runs/r/flower.log").is_file()
    assert not processes(marked_environment[MARK])


def broken_generator(root: Path) -> Path:
    """Make a generator whose network gives nothing but NaN."""
    directory = pretrained.unpack("digits", root / "generator")
    weights = directory / "unet/diffusion_pytorch_model.safetensors"
    save_file({k: np.full_like(v, np.nan) for k, v in load_file(weights).items()}, weights)
    return directory


@pytest.mark.parametrize(
    "numbers",
    [
        [signal.SIGINT, signal.SIGINT, signal.SIGINT],
        pytest.param([signal.SIGTERM], marks=pytest.mark.long),  # each alone: test_launcher.py
        pytest.param([signal.SIGHUP], marks=pytest.mark.long),
    ],
)
def test_an_interrupted_run_keeps_what_is_finished_and_leaves_no_process(
    numbers: list[signal.Signals], tmp_path: Path, cache: Path, marked_environment: dict[str, str]
) -> None:
    words = ["run", *SMALL, "--set=rounds=1000", "--set=policy=none", "--set=run-name=r"]
    places = [f"--set=cache-dir={cache}", f"--set=output-dir={tmp_path / 'runs'}"]
    with running([*words, "--set=checkpoint-every=500", *places], marked_environment) as run:
        wait_for(tmp_path / "runs/r/rounds.jsonl", lines=3)
        for number in numbers:  # an impatient user presses Ctrl-C again while processes end
            run.send_signal(number)
            time.sleep(0.5)
        complaint = last_words(run)
    assert run.returncode == 1
    assert complaint.startswith("Error: Interrupted")
    last = rounds_of(tmp_path / "runs/r")[-1]["round"]
    assert last >= 2
    kept = load_checkpoint(tmp_path / "runs/r")
    assert kept is not None
    assert kept.server_round in (last - 1, last)  # its line is written just before it is kept
    assert json.loads((tmp_path / "runs/r/summary.json").read_text())["status"] == "failed"
    assert not processes(marked_environment[MARK])


def test_a_killed_worker_ends_the_run_with_the_reason(
    tmp_path: Path, cache: Path, marked_environment: dict[str, str]
) -> None:
    words = ["run", *SMALL, "--set=rounds=1000", "--set=policy=none", "--set=run-name=r"]
    places = [f"--set=cache-dir={cache}", f"--set=output-dir={tmp_path / 'runs'}"]
    # Behind a proxy, as in many companies: what stays on this machine must not go through it.
    proxy = {"http_proxy": "http://127.0.0.1:9", "no_proxy": "example.org"}
    with running([*words, *places], marked_environment | proxy) as run:
        wait_for(tmp_path / "runs/r/rounds.jsonl", lines=3)
        workers = [p for p in processes(marked_environment[MARK]) if "ClientApp" in p.name()]
        workers[0].kill()
        complaint = last_words(run)
    assert run.returncode == 1
    assert "A simulation worker was killed" in complaint
    assert json.loads((tmp_path / "runs/r/summary.json").read_text())["status"] == "failed"
    assert not processes(marked_environment[MARK])


@contextmanager
def running(words: list[str], environment: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """Start ``fedeas``, and wait for no thousand rounds where the test fails."""
    with subprocess.Popen(
        [str(BIN / "fedeas"), *words],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        try:
            yield run
        finally:
            run.kill()


def last_words(run: "subprocess.Popen[str]") -> str:
    """Return what a command that should end by itself wrote to stderr."""
    return run.communicate(timeout=90)[1]


def wait_for(path: Path, lines: int) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        if path.is_file() and len(path.read_text().splitlines()) >= lines:
            return
        time.sleep(0.2)
    raise AssertionError(f"{path} did not grow to {lines} lines")


@pytest.mark.long  # its files: test_split.py; the same door: above
@pytest.mark.skipif(not CIFAR10.is_dir(), reason="CIFAR-10 is not beside the checkout")
def test_real_cifar10_through_the_same_door(fedeas: Command, tmp_path: Path) -> None:
    done = fedeas(
        "run", "cifar10", f"--set=dataset={CIFAR10}", "--set=policy=none", "--set=rounds=1",
        "--set=train-samples=2000", "--set=test-samples=500", "--set=num-clients=5",
        "--set=local-epochs=1", "--set=run-name=r",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert rounds_of(tmp_path / "runs/r")[1]["accuracy"] > 0.1
    weights = load_file(tmp_path / "runs/r/model.safetensors")
    assert weights["hidden.weight"].shape == (128, 4096)


def test_a_generator_of_the_wrong_kind_is_refused(fedeas: Command, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(20):
            pixels = np.random.default_rng(number).integers(0, 255, (12, 12), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.png")
    done = fedeas(
        "run", "--set=dataset=./images", "--set=num-clients=2", "--set=partitioner=classes",
        "--set=image-size=8", "--set=min-partition-size=1",
    )  # fmt: skip
    assert done.returncode == 1
    assert "knows 10 classes, but the dataset has 3" in done.stderr
