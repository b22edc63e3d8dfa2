"""Seconds a round: ``fedeas run`` against an app in the style of Flower's quickstart.

The same clients, number of images, network, batches, optimiser and evaluation on both sides, in
turns. The other side (see `quickstart/`) has what a first Flower app has: FedAvg, a Hugging Face
dataset whose images are decoded and transformed one by one in a DataLoader, and the simulation's
defaults, which give every client two cores. What counts are the rounds after the first.

    python bench/flower_style.py --dataset ~/cifar10
    python bench/flower_style.py --dataset ~/cifar10 --quick
"""

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

from measuring import (
    MARK,
    Dataset,
    Finished,
    PeakMemory,
    command,
    marked,
    megabytes,
    print_goals,
    print_table,
    take_turns,
    tool,
)
from rounds import HERE, Side, Work, configure, ours, prepare

from fedeas_app.commands.launcher import Simulation
from fedeas_app.processes import cores
from fedeas_app.settings import Settings

FASTER = 1.5  # the goal


def main(
    dataset: Dataset,
    clients: int = 20,
    images: int = 0,
    test_images: int = 0,
    rounds: int = 4,
    repeats: int = 3,
    quick: bool = False,
) -> None:
    """Print a table of both sides and their ratio."""
    if quick:
        clients, images, test_images, rounds, repeats = 4, 1000, 500, 3, 1
    with tempfile.TemporaryDirectory(prefix="fedeas-bench-") as place:
        work = Work(dataset, clients, images, test_images, "iid", rounds)
        settings = configure(Path(place), work)
        prepare(settings)
        sides: dict[str, Callable[[], Side]] = {
            "Flower's quickstart style": partial(quickstart, settings, Path(place)),
            "fedeas run": partial(ours, settings, Path(place)),
        }
        tell(take_turns(sides, repeats))


def quickstart(settings: Settings, place: Path) -> Side:
    """Run the other app; all its processes end with it."""
    out, mark = place / "quickstart.json", uuid.uuid4().hex
    os.environ[MARK] = mark
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="fedeas-bench-") as home:
        simulation = Quickstart(settings, Path(home), out)
        try:
            with PeakMemory(lambda: marked(mark)) as memory:
                simulation.submit().wait()
            side = read(out, Finished(time.perf_counter() - begin, memory.peak, memory.parts))
            if len(side.seconds) < settings.rounds:
                raise SystemExit(simulation.complaints())
        finally:
            simulation.stop()
    return side


class Quickstart(Simulation):
    """The other app in a Flower of its own, as `flwr run` simulates it by default."""

    def __init__(self, settings: Settings, home: Path, out: Path) -> None:
        super().__init__(settings, home)
        self._out = out

    def submit(self) -> "subprocess.Popen[bytes]":
        """Submit the app and return the process that follows its log until it ends."""
        self._await_superlink()
        settings = self._settings
        config = {
            "dataset": settings.dataset, "train-images": settings.train_samples,
            "test-images": settings.test_samples, "rounds": settings.rounds, "out": str(self._out),
        }  # fmt: skip
        written = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        app = str(shutil.copytree(HERE / "quickstart", self._home / "app"))
        command = [str(tool("flwr")), "run", app, "local", "--stream", "--run-config", written]
        clients = f"num-supernodes={settings.num_clients}"
        if cores() < 2:  # the default of two for each client would leave no worker
            clients += " client-resources-num-cpus=1"
        return self._popen([*command, "--federation-config", clients])


def read(out: Path, finished: Finished) -> Side:
    """Return what the other app's server wrote."""
    told = json.loads(out.read_text())
    ends = [when for when, _ in told]
    seconds = [after - before for before, after in pairwise(ends)]
    return Side(seconds, told[-1][1], {}, finished)


def tell(turns: dict[str, list[Side]]) -> None:
    """Print what came out."""
    a_round = {name: statistics.median(s.a_round for s in sides) for name, sides in turns.items()}
    print(f"{cores()} cores\n")
    print_table(
        ("side", "a round (s)", "peak memory", "accuracy"),
        (
            (
                name,
                f"{a_round[name]:.2f}",
                megabytes(max(side.finished.peak for side in sides)),
                f"{sides[-1].accuracy:.4f}",
            )
            for name, sides in turns.items()
        ),
    )
    theirs, ours = a_round.values()
    speed = theirs / ours
    print_goals([(f"{FASTER:g} times as fast", f"{speed:.2f} times", speed >= FASTER)])


if __name__ == "__main__":
    command(main)
