"""Seconds and memory of averaging a round's replies: ours, numpy's floor, and Flower's.

* floor: every reply is read once, as Flower reads it, multiplied by its weight and added up in
  float64, in order, and nothing is checked or kept;
* uncopied: the same, but numpy looks at the bytes where they lie, which Flower's reading copies;
* ours: what the server does: names, shapes and types are compared, every value is looked at, the
  model is kept until all weights are known, and the sum is taken in order of client;
* flower: `aggregate_arrayrecords` of Flower's own strategies, which takes a list of all replies.

Replies are made one by one as they would come in; making them is not timed. Each side is a process
of its own, in turns.

    python bench/aggregation.py --replies 100 --model resnet18
    python bench/aggregation.py --replies 10000 --model cnn --but-not flower
    python bench/aggregation.py --quick
"""

import json
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated

import numpy as np
import typer
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
from measuring import command, megabytes, print_goals, print_table, take_turns, tool
from numpy.typing import NDArray

from fedeas_app.arrays import decode
from fedeas_app.files import sha256
from fedeas_app.models import make_model
from fedeas_app.settings import Settings
from fedeas_app.strategies.updates import Updates

SIDES = ("floor", "uncopied", "ours", "flower")
Values = NDArray[np.generic]
Bits = dict[str, Values]

SLOWEST = 1.5  # the goal, in times the floor's seconds


def main(
    replies: int = 100,
    model: str = "resnet18",
    repeats: int = 3,
    quick: bool = False,
    but_not: Annotated[list[str] | None, typer.Option(help="A side to leave out.")] = None,
    side: Annotated[str, typer.Option(help="Run this side alone, here.")] = "",
) -> None:
    """Print a table of all sides."""
    if side:
        print(json.dumps(measure(side, replies, model)))
        return
    if quick:
        replies, model, repeats = min(replies, 50), "cnn", 1
    names = [name for name in SIDES if name not in (but_not or [])]
    turns = take_turns({n: partial(in_process, n, replies, model) for n in names}, repeats)
    tell(turns, replies, model)


def in_process(side: str, replies: int, model: str) -> dict[str, float | str]:
    """Run one side in a process of its own."""
    command = [tool("python"), __file__, "--side", side]
    command += ["--replies", str(replies), "--model", model]
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    result: dict[str, float | str] = json.loads(done.stdout)
    return result


def measure(side: str, replies: int, model: str) -> dict[str, float | str]:
    """Return the seconds, the memory beyond one model's replies, and the result's SHA-256."""
    start = template(model)
    before = peak()
    timer = Timer()
    merged = RULES[side](start, replies, timer)
    size = sum(array.nbytes for array in start.values())
    digest = sha256(b"".join(np.asarray(a, np.float32).tobytes() for a in merged.values()))
    return {
        "seconds": timer.seconds,
        "memory": peak() - before,
        "model": size,
        "digest": digest,
    }


def template(model: str) -> Bits:
    """Return the arrays of a CIFAR-10 classifier."""
    settings = Settings.parse({"model": model})
    state = make_model(settings, (32, 32, 3), 10).state_dict()
    return {name: value.contiguous().numpy() for name, value in state.items()}


def peak() -> int:
    """Return the most memory this process had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Timer:
    """A watch that runs inside its block only."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._begin = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.seconds += time.perf_counter() - self._begin


def made(start: Bits, replies: int) -> Iterator[tuple[int, ArrayRecord]]:
    """Make the replies one by one, each another one, as a client's would arrive."""
    for number in range(replies):
        shift = np.float32(number / replies)
        yield number, ArrayRecord({name: Array(a + shift) for name, a in start.items()})


def weights(replies: int) -> dict[int, float]:
    """Return weights that sum to 1, no two alike."""
    total = replies * (replies + 1) / 2
    return {number: (number + 1) / total for number in range(replies)}


def floor(
    start: Bits, replies: int, timer: Timer, read: Callable[[Array], Values] = Array.numpy
) -> Bits:
    """Read once and add up."""
    share = weights(replies)
    mean = {name: np.zeros(array.shape) for name, array in start.items()}
    for number, record in made(start, replies):
        with timer:
            for name in mean:
                mean[name] += np.multiply(read(record[name]), share[number], dtype=np.float64)
    return {name: total.astype(start[name].dtype) for name, total in mean.items()}


def ours(start: Bits, replies: int, timer: Timer) -> Bits:
    """Check, keep and average, as the server does."""
    with timer:
        updates = Updates(ArrayRecord({name: Array(array) for name, array in start.items()}))
    with updates:
        for number, record in made(start, replies):
            with timer:
                updates.add(number, record)
        with timer:
            merged = updates.average(weights(replies))
    return {name: array.numpy() for name, array in merged.items()}


def flower(start: Bits, replies: int, timer: Timer) -> Bits:
    """Call Flower's function."""
    from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords

    share = weights(replies)
    records = [
        RecordDict({"arrays": record, "metrics": MetricRecord({"weight": share[number]})})
        for number, record in made(start, replies)
    ]
    with timer:
        merged = aggregate_arrayrecords(records, "weight")
    return {name: array.numpy() for name, array in merged.items()}


RULES: dict[str, Callable[[Bits, int, Timer], Bits]] = {
    "floor": floor,
    "uncopied": partial(floor, read=decode),
    "ours": ours,
    "flower": flower,
}


def tell(turns: dict[str, list[dict[str, float | str]]], replies: int, model: str) -> None:
    """Print what came out."""
    seconds = {n: statistics.median(float(t["seconds"]) for t in ts) for n, ts in turns.items()}
    size = float(next(iter(turns.values()))[0]["model"])
    models = {n: max(float(t["memory"]) for t in ts) / size for n, ts in turns.items()}
    same = {n: ts[0]["digest"] == turns["floor"][0]["digest"] for n, ts in turns.items()}
    print(f"{replies:,} replies of {model}, {megabytes(size)} each\n")
    print_table(
        ("side", "seconds", "x floor", "memory", "models", "the floor's bits"),
        (
            (
                name,
                f"{seconds[name]:.2f}",
                f"{seconds[name] / seconds['floor']:.2f}",
                megabytes(models[name] * size),
                f"{models[name]:.1f}",
                "yes" if same[name] else "no",
            )
            for name in turns
        ),
    )
    print_goals(goals(seconds, models, same["ours"]))


def goals(
    seconds: dict[str, float], models: dict[str, float], same: bool
) -> Iterator[tuple[str, str, bool]]:
    """Yield what is asked for, what came out, and whether that is enough."""
    ratio = seconds["ours"] / seconds["floor"]
    yield f"{SLOWEST:g} times the floor's time", f"{ratio:.2f}", ratio <= SLOWEST
    yield "the floor's bits", "yes" if same else "no", same
    beside = models["ours"] - models["floor"]
    yield "about the floor's memory, in models", f"{beside:+.1f}", beside <= 1
    if "flower" in seconds:
        for what, sides in (("faster", seconds), ("smaller", models)):
            share = sides["flower"] / sides["ours"]
            yield f"{what} than Flower's function", f"{share:.1f} times", share > 1


if __name__ == "__main__":
    command(main)
