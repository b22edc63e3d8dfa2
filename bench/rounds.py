"""Seconds a round and peak memory: ``fedeas run`` against one plain PyTorch process.

Both train the same clients from the same weights with the same batches, average them and evaluate
(see `floor.py`), in turns. What counts are the rounds after the first, in which processes are still
warming up. Where the floor has one thread, its final weights are the run's, bit for bit; with more,
sums inside a layer are taken in another order.

    python bench/rounds.py --dataset ~/cifar10
    python bench/rounds.py --dataset /usr/share/datasets/fashion-mnist --clients 100 --rounds 3
    python bench/rounds.py --quick
"""

import json
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tomli_w
import torch
import typer
from measuring import (
    Dataset,
    Finished,
    command,
    megabytes,
    print_goals,
    print_table,
    run,
    take_turns,
    tool,
)
from safetensors.torch import load_file

from fedeas_app.processes import cores
from fedeas_app.settings import Settings

HERE = Path(__file__).parent

# The goals: times the floor's seconds with a few clients and with many, times its memory, and how
# far accuracies may be apart where the floor has several threads.
SLOWEST, SLOWEST_OF_MANY, MANY = 1.15, 1.3, 100
LARGEST = 2.0
APART = 0.01


@dataclass(frozen=True)
class Work:
    """What both sides do; 0 images are all."""

    dataset: str
    clients: int
    images: int
    test_images: int
    partitioner: str
    rounds: int


@dataclass(frozen=True)
class Side:
    """What one side did: the seconds of its rounds, the final model, and its processes."""

    seconds: list[float]
    accuracy: float
    weights: dict[str, torch.Tensor]
    finished: Finished

    @property
    def a_round(self) -> float:
        """The median seconds of a round after the first."""
        return statistics.median(self.seconds[1:])


def main(  # noqa: PLR0913, PLR0917  # options of a command line
    dataset: Dataset = "digits",
    clients: int = 20,
    images: Annotated[int, typer.Option(help="Of the training set; 0: all.")] = 0,
    test_images: int = 0,
    partitioner: str = "iid",
    rounds: int = 5,
    repeats: int = 3,
    threads: Annotated[int, typer.Option(help="Of the floor; 0: all cores.")] = 0,
    quick: Annotated[bool, typer.Option(help="Small enough for minutes.")] = False,
) -> None:
    """Print a table of both sides and their ratios."""
    if quick:
        clients, rounds, repeats = min(clients, 4), 3, 1
    with tempfile.TemporaryDirectory(prefix="fedeas-bench-") as place:
        work = Work(dataset, clients, images, test_images, partitioner, rounds)
        settings = configure(Path(place), work)
        prepare(settings)
        threads = threads or cores()
        sides: dict[str, Callable[[], Side]] = {
            "floor": partial(floor, settings, Path(place), threads),
            "fedeas run": partial(ours, settings, Path(place)),
        }
        tell(take_turns(sides, repeats), clients, threads)


def configure(place: Path, work: Work) -> Settings:
    """Return a run of FedAvg with full participation and the small CNN."""
    keys = {
        "dataset": work.dataset,
        "num-clients": work.clients,
        "train-samples": work.images,
        "test-samples": work.test_images,
        "partitioner": work.partitioner,
        "rounds": work.rounds,
        "local-epochs": 1,
        "learning-rate": 0.02,
        "strategy": "fedavg",
        "policy": "none",
        "device": "cpu",
        "output-dir": str(place),
        "run-name": "run",
    }
    return Settings.parse(keys)


def prepare(settings: Settings) -> None:
    """Decode and partition once: neither side is to do it while it is measured."""
    from fedeas_app.data import load_split, partition

    train = load_split(settings, "train")
    load_split(settings, "test")
    partition(train.labels, int(settings.num_clients), settings)


def write_config(settings: Settings, place: Path) -> Path:
    """Write the settings to a file."""
    path = place / "config.toml"
    path.write_text(tomli_w.dumps(settings.to_flat()))
    return path


def floor(settings: Settings, place: Path, threads: int) -> Side:
    """Run the plain process."""
    config = write_config(settings, place)
    command = [tool("python"), HERE / "floor.py", config, place, "--threads", str(threads)]
    finished = run(command, OMP_NUM_THREADS=str(threads))
    result = json.loads((place / "floor.json").read_text())
    weights = load_file(place / "floor.safetensors")
    return Side(result["seconds"], result["accuracies"][-1], weights, finished)


def ours(settings: Settings, place: Path) -> Side:
    """Run the application."""
    name = f"run-{sum(1 for _ in place.glob('run-*'))}"
    config = write_config(settings, place)
    finished = run([tool("fedeas"), "run", config, f"--set=run-name={name}"])
    record = place / name
    lines = map(json.loads, (record / "rounds.jsonl").read_text().splitlines())
    told = [(line["seconds"], line["accuracy"]) for line in lines][1:]
    weights = load_file(record / "model.safetensors")
    return Side([seconds for seconds, _ in told], told[-1][1], weights, finished)


def tell(turns: dict[str, list[Side]], clients: int, threads: int) -> None:
    """Print what came out."""
    a_round = {name: statistics.median(s.a_round for s in sides) for name, sides in turns.items()}
    memory = {name: max(s.finished.peak for s in sides) for name, sides in turns.items()}
    head = ("side", "a round (s)", "x floor", "peak memory", "x floor", "accuracy")
    print(f"Floor with {threads} threads, {cores()} cores\n")
    print_table(
        head,
        (
            (
                name,
                f"{a_round[name]:.2f}",
                f"{a_round[name] / a_round['floor']:.2f}",
                megabytes(memory[name]),
                f"{memory[name] / memory['floor']:.2f}",
                f"{sides[-1].accuracy:.4f}",
            )
            for name, sides in turns.items()
        ),
    )
    print(f"\nFinal weights: {compare(turns['floor'][-1], turns['fedeas run'][-1])}\n")
    print_table(("process", "how many", "memory at the peak"), whose(turns["fedeas run"]))
    times, sizes = (of["fedeas run"] / of["floor"] for of in (a_round, memory))
    print_goals(goals(turns, clients, times, sizes))


def whose(sides: list[Side]) -> list[tuple[str, int, str]]:
    """Return, of the largest run, the memory of each kind of process, the largest first."""
    parts = max((side.finished for side in sides), key=lambda finished: finished.peak).parts
    sizes: dict[str, list[int]] = {}
    for role, size in parts:
        sizes.setdefault(role, []).append(size)
    ordered = sorted(sizes.items(), key=lambda item: -sum(item[1]))
    return [(role, len(each), megabytes(sum(each))) for role, each in ordered]


def goals(
    turns: dict[str, list[Side]], clients: int, times: float, sizes: float
) -> list[tuple[str, str, bool]]:
    """Return what is asked for, what came out, and whether that is enough."""
    limit = SLOWEST if clients < MANY else SLOWEST_OF_MANY
    floor, ours = (turns[name][-1].accuracy for name in ("floor", "fedeas run"))
    return [
        (f"a round in {limit:g} times the floor's time", f"{times:.2f}", times <= limit),
        (f"{LARGEST:g} times the floor's memory", f"{sizes:.2f}", sizes <= LARGEST),
        (
            f"the floor's accuracy, within {APART:g}",
            f"{ours - floor:+.4f}",
            abs(ours - floor) <= APART,
        ),
    ]


def compare(one: Side, other: Side) -> str:
    """Say how far two models are apart."""
    apart = max(
        float((value - other.weights[name]).abs().max()) for name, value in one.weights.items()
    )
    return f"apart by {apart:.2g} at most" if apart else "the same bits"


if __name__ == "__main__":
    command(main)
