"""``fedeas compare`` on real processes: broken off, gone on with, and what comes of it."""

import csv
import signal
import subprocess
import time
from pathlib import Path

import pytest
from real_runs import BIN, MARK, processes

from fedeas_app.comparison.agreement import disagreements
from fedeas_app.comparison.reading import read_comparison

GRID = """
baseline = {policy = "none"}
target = 0.01
[set]
strategy = "fedavg"
num-clients = 3
rounds = 1
local-epochs = 1
alpha = 0.3
cache-dir = "CACHE"
[[grid]]
policy = ["none", "fedeas"]
[[grid]]
policy = "full"
num-clients = 3000
"""


def test_a_grid_is_broken_off_and_gone_on_with(
    tmp_path: Path, cache: Path, marked_environment: dict[str, str]
) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(GRID.replace("CACHE", str(cache)))
    out = tmp_path / "out"
    complaint = interrupted(["compare", str(grid), "--out", str(out)], out, marked_environment)
    assert complaint.startswith("Error: Interrupted with 1 of 3 cells finished")
    assert not processes(marked_environment[MARK])
    (first,) = read_comparison(out).arms[0].runs
    kept = (first.directory / "model.safetensors").stat().st_mtime_ns

    done = subprocess.run(
        [str(BIN / "fedeas"), "compare", str(out)], env=marked_environment | {"COLUMNS": "100"},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 1
    assert "3 cells, 1 of them finished already" in done.stdout
    assert "Error: 1 of 3 cells failed (full num-clients=3000, seed 0)" in done.stderr
    assert "3000 clients" in (out / "table.md").read_text()
    assert (first.directory / "model.safetensors").stat().st_mtime_ns == kept
    assert not processes(marked_environment[MARK])
    check_record(out)


def interrupted(words: list[str], out: Path, environment: dict[str, str]) -> str:
    """Press Ctrl-C while the second cell runs and return the last words."""
    with subprocess.Popen(
        [str(BIN / "fedeas"), *words], env=environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    ) as command:  # fmt: skip
        deadline = time.monotonic() + 400
        while time.monotonic() < deadline and not list(out.glob("cells/fedavg-fedeas-*/*.json")):
            time.sleep(0.2)
        command.send_signal(signal.SIGINT)
        try:
            return command.communicate(timeout=90)[1]
        finally:
            command.kill()


def check_record(out: Path) -> None:
    comparison = read_comparison(out)
    assert not disagreements(comparison)
    none, fedeas = (arm.runs[0] for arm in comparison.arms[:2])
    assert none.synthetic == 0 < fedeas.synthetic
    for run in (none, fedeas):
        assert run.counts is not None
        assert run.counts.classes == tuple("0123456789")
        clients = run.plan["clients"]
        assert run.counts.real.sum(axis=1).tolist() == [c["num-examples"] for c in clients]
        assert run.counts.synthetic.sum(axis=1).tolist() == [c["synthetic"] for c in clients]
    assert comparison.arm("fedeas num-clients=3").baseline == "none num-clients=3"
    with open(out / "table.csv", encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["status"] for row in rows] == ["completed", "completed", "failed"]
    assert float(rows[1]["final"]) == pytest.approx(fedeas.accuracies[-1])
