"""What a generator that the clients trained is worth: recognised share, Fréchet, accuracy.

For every α and seed runs of the same rounds: without synthesis, with a generator trained on the
pooled images, with one that the clients trained first, and with variants of that. Everything goes
through the commands that a user has; what is there already is not run again. The last two columns
are what a client sends and receives in the generator's rounds, and how long one of them took here.

    python bench/federated_generator.py --alphas 0.05,0.1,0.3 --seeds 0,1,2
    python bench/federated_generator.py --alphas 0.1 --seeds 0 --out runs/generator-variants \
        --arms federated,movers,fedprox,dropout,guided,half-of-the-clients,half-precision \
        --set generator-rounds=20 --set generator-only=true    # no classifiers, no accuracy
    python bench/federated_generator.py --config fashion-mnist --set train-samples=6000 \
        --set generator-unshuffle=2 --set generator-label-dropout=0.1 --set guidance-scale=2 \
        --pooled-steps 6000 --out runs/federated-fashion
    python bench/federated_generator.py --config cifar10 --alphas 0.1 --set generator-preset=cifar \
        --set generator-rounds=300 --set generator-batch-size=128 --pooled-steps 100000 \
        --out runs/federated-cifar10    # on a GPU, about a day
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

FEDERATED = {"generator": "federated"}
PRIVATE = FEDERATED | {
    "privacy": "central", "strategy": "fedavg", "clip-norm": 1.0, "generator-clip-norm": 3.0
}  # fmt: skip
ARMS: dict[str, dict[str, Any]] = {
    "none": {"policy": "none"},
    "pooled": {},  # its generator is a path
    "federated": FEDERATED,
    "movers": FEDERATED | {"generator-embeddings": "movers"},
    "fedprox": FEDERATED | {"generator-mu": 0.01},
    "dropout": FEDERATED | {"generator-label-dropout": 0.1},
    "guided": FEDERATED | {"generator-label-dropout": 0.1, "guidance-scale": 1.5},
    "half-of-the-clients": FEDERATED | {"generator-fraction": 0.5},
    "half-precision": FEDERATED | {"generator-transfer": "float16"},
    "private-0.001": PRIVATE | {"noise-multiplier": 0.001},
    "private-0.01": PRIVATE | {"noise-multiplier": 0.01},
    "private-0.1": PRIVATE | {"noise-multiplier": 0.1},
}
BASIC = "none,pooled,federated"
COLUMNS = (
    "α", "generator", "recognised", "Fréchet", "final accuracy", "AUC", "MB", "seconds a round",
)  # fmt: skip
Values = Mapping[str, Any]
Sets = Annotated[list[str] | None, typer.Option("--set", help="Another key, for all runs.")]


def main(
    out: Path = Path("runs/federated-generator"),
    config: str = "digits",
    alphas: str = "0.05,0.1,0.3",
    seeds: str = "0,1,2",
    arms: str = BASIC,
    pooled_steps: int = 3000,
    per_class: int = 100,
    overrides: Sets = None,
) -> None:
    """Fill the table and print it."""
    bench = Bench(out, config, pooled_steps, per_class, overrides or [])
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
    for alpha in map(float, alphas.split(",")):
        cells = {
            arm: [bench.cell(arm, alpha, seed) for seed in map(int, seeds.split(","))]
            for arm in arms.split(",")
        }
        for arm, found in cells.items():
            print(row(alpha, arm, found), flush=True)
        for line in gains(cells):
            print(line, flush=True)


class Bench:
    """Runs commands, and reads what they left."""

    def __init__(
        self, out: Path, config: str, pooled_steps: int, per_class: int, overrides: Sequence[str]
    ) -> None:
        self._out = out.absolute()
        self._config = config
        self._pooled_steps = pooled_steps
        self._per_class = per_class
        self._overrides = overrides

    def cell(self, arm: str, alpha: float, seed: int) -> Values:
        """Return what one run and the judgement of its generator say."""
        run = self._run(arm, alpha, seed)
        summary = read(run / "summary.json")
        values = {key: summary[key] for key in ("final", "auc") if key in summary}
        if arm == "none":
            return values
        generator = self._pooled(seed) if arm == "pooled" else run / "generator"
        keys = {"generator": generator, "seed": seed, "guidance-scale": self._guidance(arm)}
        keys["generator-only"] = "false"
        verdict = self._judge(keys, run.parent / f"{run.name}-verdict")
        distance = verdict["frechet-distance"]["synthetic-test"]
        values |= {"recognised": verdict["recognised"], "frechet": distance}
        return values if arm == "pooled" else values | price(run)

    def _run(self, arm: str, alpha: float, seed: int) -> Path:
        name = f"a{alpha:g}-s{seed}-{arm}"
        if not is_complete(self._out / name):
            keys = {"alpha": alpha, "seed": seed, "output-dir": self._out, "run-name": name}
            keys |= {"guidance-scale": self._guidance(arm)} | ARMS[arm]
            keys |= {"generator": self._pooled(seed)} if arm == "pooled" else {}
            begun = (self._out / name / "config.toml").is_file()
            self._fedeas("run", self._config, keys | {"resume": str(begun).lower()})
        return self._out / name

    def _pooled(self, seed: int) -> Path:
        """Return the pooled generator of a seed: the same network and step size."""
        target = self._out / f"pooled-s{seed}"
        if not target.is_dir():
            options = ["--out", str(target), "--steps", str(self._pooled_steps)]
            options += ["--label-dropout", self._key("generator-label-dropout", "0")]
            options += ["--unshuffle", self._key("generator-unshuffle", "1")]
            options += ["--preset", self._key("generator-preset", "tiny")]
            self._fedeas("generator", "train", self._config, {"seed": seed}, *options)
        return target

    def _judge(self, keys: Values, target: Path) -> Values:
        if not target.is_dir():
            options = ["--out", str(target), "--per-class", str(self._per_class)]
            self._fedeas("generator", "evaluate", self._config, keys, *options)
        verdict: Values = read(target / "report.json")
        return verdict

    def _guidance(self, arm: str) -> str:
        return str(ARMS[arm].get("guidance-scale", self._key("guidance-scale", "0")))

    def _key(self, key: str, default: str) -> str:
        chosen = dict(text.split("=", 1) for text in self._overrides)
        return str(chosen.get(key, default))

    def _fedeas(self, *words: str | Values) -> None:
        """Run a command; keys among its words become options."""
        own = [f"{k}={v}" for word in words if not isinstance(word, str) for k, v in word.items()]
        options = [f"--set={text}" for text in [*self._overrides, *own]]
        plain = [word for word in words if isinstance(word, str)]
        command = [str(Path(sys.executable).parent / "fedeas"), *plain, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def is_complete(run: Path) -> bool:
    """Tell whether a run is there and has ended well."""
    summary = run / "summary.json"
    return summary.is_file() and bool(read(summary)["status"] == "completed")


def price(run: Path) -> dict[str, float]:
    """Return the megabytes of a client and the seconds of a round as its record has them.

    The median: processes start in the first round.
    """
    card = read(run / "generator" / "card.json")
    how, bytes_ = card["federated"], {"float32": 4, "float16": 2}
    cohort = max(1, round(how["generator-fraction"] * how["clients"]))
    rounds = how["generator-rounds"] * cohort / how["clients"]
    lines = (run / "generator.jsonl").read_text(encoding="utf-8").splitlines()
    return {
        "megabytes": 2e-6 * rounds * card["parameters"] * bytes_[how["generator-transfer"]],
        "seconds": statistics.median(json.loads(line)["seconds"] for line in lines),
    }


def row(alpha: float, arm: str, cells: Sequence[Values]) -> str:
    """Return a line of the table: means and standard deviations over seeds."""

    def every(name: str) -> list[float]:
        return [cell[name] for cell in cells if name in cell]

    shown = [
        percent(every("recognised")),
        spread(every("frechet")),
        percent(every("final")),
        spread(every("auc"), 3),
        spread(every("megabytes"), 0),
        spread(every("seconds")),
    ]
    return f"| {alpha:g} | {arm} | {' | '.join(shown)} |"


def gains(cells: Mapping[str, Sequence[Values]]) -> list[str]:
    """Say which share of the pooled generator's gain in accuracy and AUC the others have."""
    if not {"none", "pooled"} <= set(cells):
        return []
    final, auc = shares(cells, "final"), shares(cells, "auc")
    return [
        f"\n{arm}: {final[arm]} of the pooled generator's gain in accuracy, {auc[arm]} in AUC."
        for arm in cells
        if arm not in ("none", "pooled")
    ]


def shares(cells: Mapping[str, Sequence[Values]], name: str) -> dict[str, str]:
    """Return what each arm has of the pooled generator's gain; a dash where that gains nothing."""
    mean = {arm: statistics.mean(cell[name] for cell in found) for arm, found in cells.items()}
    whole = mean["pooled"] - mean["none"]
    return {
        arm: f"{(value - mean['none']) / whole:.0%}" if whole > 0 else "–"
        for arm, value in mean.items()
    }


def percent(values: Sequence[float]) -> str:
    """Return mean and deviation in percent; a dash for none."""
    return spread([100 * value for value in values])


def spread(values: Sequence[float], places: int = 1) -> str:
    """Return mean and deviation; a dash for none."""
    if not values:
        return "–"
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{places}f} ± {deviation:.{places}f}"


def read(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    typer.run(main)
