"""Accuracy on digits with and without synthesis, over seeds: table and picture of the README.

Runs ``fedeas run`` for every strategy, policy and seed, keeps the records, skips what is there
already, prints a Markdown table, and draws the mean accuracy over rounds.
"""

import json
import statistics
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import typer
from matplotlib.figure import Figure

STRATEGIES = ("fedavg", "fedoui")
POLICIES = ("none", "fedeas", "full")


def main(
    output: Path = Path("runs/digits-table"),
    seeds: int = 3,
    alpha: float = 0.1,
    picture: Path = Path("runs/digits.png"),
) -> None:
    """Fill the table, print it, and draw it."""
    print(f"| strategy | policy | synthetic images | final accuracy (%) | AUC |\n{'|---' * 5}|")
    cells = {}
    for strategy, policy in product(STRATEGIES, POLICIES):
        records = [record(output, strategy, policy, alpha, seed) for seed in range(seeds)]
        cells[strategy, policy] = records
        print(row(strategy, policy, records), flush=True)
    draw(cells, alpha, picture)


def record(output: Path, strategy: str, policy: str, alpha: float, seed: int) -> Path:
    """Return the directory of a finished run, running it when it is not there."""
    name = f"{strategy}-{policy}-a{alpha:g}-s{seed}"
    if not (output / name / "model.safetensors").is_file():
        keys = {
            "strategy": strategy,
            "policy": policy,
            "alpha": alpha,
            "seed": seed,
            "output-dir": output,
            "run-name": name,
        }
        options = [f"--set={key}={value}" for key, value in keys.items()]
        command = [str(Path(sys.executable).parent / "fedeas"), "run", "digits", *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return output / name


def row(strategy: str, policy: str, records: list[Path]) -> str:
    """Return a line of the table."""
    summaries = [read(record / "summary.json") for record in records]
    images = statistics.mean(read(record / "plan.json")["synthetic"] for record in records)
    final = [100 * summary["final"] for summary in summaries]
    auc = statistics.mean(summary["auc"] for summary in summaries)
    spread = statistics.stdev(final) if len(final) > 1 else 0.0
    mean = statistics.mean(final)
    return f"| {strategy} | {policy} | {images:,.0f} | {mean:.1f} ± {spread:.1f} | {auc:.3f} |"


def draw(cells: dict[tuple[str, str], list[Path]], alpha: float, picture: Path) -> None:
    """Draw the mean accuracy over rounds, a line for each cell, the range over seeds shaded."""
    figure = Figure(figsize=(7.2, 4), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    colours = dict(zip(POLICIES, ("tab:grey", "tab:blue", "tab:orange"), strict=True))
    for (strategy, policy), records in cells.items():
        curves = 100 * np.array([accuracies(record) for record in records])
        rounds = range(1, curves.shape[1] + 1)
        style = {"color": colours[policy], "linestyle": "-" if strategy == "fedoui" else "--"}
        axes.plot(rounds, curves.mean(axis=0), label=f"{strategy}, {policy}", **style)
        axes.fill_between(
            rounds, curves.min(axis=0), curves.max(axis=0), color=colours[policy], alpha=0.08
        )
    axes.set(xlabel="round", ylabel="test accuracy (%)", ylim=(0, 100))
    axes.set_title(f"Digits, 10 clients, α = {alpha:g}: mean and range over seeds")
    axes.grid(alpha=0.3)
    axes.legend(title="strategy, policy")
    figure.savefig(picture)


def accuracies(record: Path) -> list[float]:
    """Return the test accuracy after each round, from the first."""
    lines = (record / "rounds.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["accuracy"] for line in lines[1:]]


def read(path: Path) -> Any:
    """Read a JSON file of a record."""
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    typer.run(main)
