"""Accuracy on digits with and without synthesis, over seeds: the table of the README.

Runs ``fedeas run`` for every strategy, policy and seed, keeps the records, skips what is there
already, and prints a Markdown table.
"""

import json
import statistics
import subprocess
import sys
from itertools import product
from pathlib import Path

import typer

STRATEGIES = ("fedavg", "fedoui")
POLICIES = ("none", "fedeas", "full")


def main(output: Path = Path("runs/digits-table"), seeds: int = 3, alpha: float = 0.1) -> None:
    """Fill the table and print it."""
    print(f"| strategy | policy | synthetic images | final accuracy (%) | AUC |\n{'|---' * 5}|")
    for strategy, policy in product(STRATEGIES, POLICIES):
        records = [_record(output, strategy, policy, alpha, seed) for seed in range(seeds)]
        print(_row(strategy, policy, records), flush=True)


def _record(output: Path, strategy: str, policy: str, alpha: float, seed: int) -> Path:
    """Return the directory of a finished run, running it when it is not there."""
    name = f"{strategy}-{policy}-a{alpha:g}-s{seed}"
    if not (output / name / "model.safetensors").is_file():
        keys = {
            "strategy": strategy, "policy": policy, "alpha": alpha, "seed": seed,
            "output-dir": output, "run-name": name,
        }  # fmt: skip
        options = [f"--set={key}={value}" for key, value in keys.items()]
        command = [str(Path(sys.executable).parent / "fedeas"), "run", "digits", *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return output / name


def _row(strategy: str, policy: str, records: list[Path]) -> str:
    summaries = [json.loads((record / "summary.json").read_text()) for record in records]
    plans = [json.loads((record / "plan.json").read_text()) for record in records]
    images = statistics.mean(plan["synthetic"] for plan in plans)
    final = [100 * summary["final"] for summary in summaries]
    auc = statistics.mean(summary["auc"] for summary in summaries)
    spread = statistics.stdev(final) if len(final) > 1 else 0.0
    mean = statistics.mean(final)
    return f"| {strategy} | {policy} | {images:,.0f} | {mean:.1f} ± {spread:.1f} | {auc:.3f} |"


if __name__ == "__main__":
    typer.run(main)
