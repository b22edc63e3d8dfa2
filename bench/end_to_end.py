"""FedEAS against full balancing: generation and training, end to end, with the same generator.

Runs ``fedeas run`` once for each policy with an empty image cache, 20 clients and α = 0.1, and
compares the seconds of the phases that the policy decides. Loading the data is done before.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

POLICIES = ("none", "fedeas", "full")


def main(
    config: str = "digits",
    overrides: Annotated[list[str] | None, typer.Option("--set")] = None,
) -> None:
    """Print a Markdown table and the ratio of the last two lines."""
    print(f"| policy | synthetic | prepare (s) | train (s) | both (s) | final (%) |\n{'|---' * 6}|")
    both = {}
    for policy in POLICIES:
        with tempfile.TemporaryDirectory() as place:
            record = run(config, overrides or [], policy, Path(place))
        phases = record["seconds"]
        both[policy] = phases["prepare"] + phases["train"]
        print(
            f"| {policy} | {record['synthetic']:,} | {phases['prepare']:.1f} "
            f"| {phases['train']:.1f} | {both[policy]:.1f} | {100 * record['final']:.2f} |",
            flush=True,
        )
    print(f"\nfull / fedeas: {both['full'] / both['fedeas']:.2f}")


def run(config: str, overrides: list[str], policy: str, place: Path) -> dict[str, Any]:
    """Run one policy and return what its record says."""
    keys = {
        "num-clients": 20,
        "alpha": 0.1,
        "policy": policy,
        "cache-dir": place / "cache",
        "output-dir": place,
        "run-name": "run",
    }
    options = [f"--set={key}={value}" for key, value in keys.items()]
    options += [f"--set={override}" for override in overrides]
    command = [str(Path(sys.executable).parent / "fedeas"), "run", config, *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    summary = json.loads((place / "run" / "summary.json").read_text())
    plan = json.loads((place / "run" / "plan.json").read_text())
    return summary | {"synthetic": plan["synthetic"]}


if __name__ == "__main__":
    typer.run(main)
