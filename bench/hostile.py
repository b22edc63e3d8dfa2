"""Hostile clients against defences: test accuracy of the whole application, in one process.

Ten clients on the digits, two of them hostile. Prints the Markdown table of docs/reliability.md.
"""

import logging
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import typer
from flwr.supercore.task_identity import TaskIdentity
from hostile import Hostile, accuracies

import fedeas_app.node
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings

ATTACKS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "×100": {"update": "scaled"},
    "flipped": {"update": "flipped"},
    "flipped ×10": {"update": "flipped-tenfold"},
    "random": {"update": "random"},
    "forged OUI, flipped ×10": {"update": "flipped-tenfold", "oui": True},
    "forged n_k, flipped": {"update": "flipped", "factor": 1000, "early": True},
}
LIMITS = {"max-client-weight": 0.15, "clip-norm": "median"}
DEFENCES: dict[str, dict[str, Any]] = {
    "fedavg": {"strategy": "fedavg"},
    "fedoui": {"strategy": "fedoui"},
    "fedavg, max-client-weight": {"strategy": "fedavg", "max-client-weight": 0.15},
    "fedavg, clip-norm": {"strategy": "fedavg", "clip-norm": "median"},
    "fedavg, both": {"strategy": "fedavg", **LIMITS},
    "fedoui, both": {"strategy": "fedoui", **LIMITS},
    "fedmedian": {"strategy": "fedmedian"},
    "fedtrimmedavg": {"strategy": "fedtrimmedavg"},
    "krum": {"strategy": "krum", "malicious-clients": 2},
    "multikrum": {"strategy": "multikrum", "malicious-clients": 2},
}


def main(
    seeds: int = 3,
    rounds: int = 10,
    clients: int = 10,
    hostile: Annotated[int, typer.Option(help="How many of the clients are hostile.")] = 2,
    alpha: float = 1.0,
    only: Annotated[str, typer.Option(help="Rows to run, with semicolons; all if empty.")] = "",
) -> None:
    """Fill the table, row by row."""
    for name in ("_run_id", "_task_id", "_node_id"):
        setattr(TaskIdentity, name, 1)
    fedeas_app.node.in_simulation = lambda: True
    logging.getLogger("flwr").disabled = True
    print("|".join(["| defence ", *(f" {name} " for name in ATTACKS), ""]))
    print("|---" * (len(ATTACKS) + 1) + "|")
    common = {"policy": "none", "rounds": rounds, "num-clients": clients, "alpha": alpha}
    for defence, keys in DEFENCES.items():
        if not only or defence in only.split(";"):
            row = [cell(common | keys, attack, hostile, seeds) for attack in ATTACKS.values()]
            print("|".join([f"| {defence} ", *(f" {text} " for text in row), ""]), flush=True)


def cell(keys: dict[str, Any], attack: dict[str, Any] | None, hostile: int, seeds: int) -> str:
    """Return the mean final accuracy over the seeds in per cent."""
    finals = [final(keys | {"seed": seed}, attack, hostile) for seed in range(seeds)]
    return f"{100 * statistics.mean(finals):.0f}"


def final(keys: dict[str, Any], attack: dict[str, Any] | None, hostile: int) -> float:
    """Return the accuracy at the end; where no client can train any more, that of a guess."""
    with tempfile.TemporaryDirectory() as directory:
        places = {"output-dir": directory, "run-name": "run", "checkpoint-every": 0}
        settings = Settings.parse(keys | places | {"device": "cpu"})
        who = Hostile(set(range(hostile)), **attack) if attack else None
        try:
            return accuracies(settings, keys["num-clients"], who)[-1]
        except UserError:
            return 0.1


if __name__ == "__main__":
    typer.run(main)
