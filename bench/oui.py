"""What OUI costs: its share of a client's training, and the server's step for many clients.

python bench/oui.py --dataset ~/cifar10
python bench/oui.py --quick
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from measuring import Dataset, command, median_of_turns, print_goals, print_table

from fedeas_app.client import Client, Order
from fedeas_app.devices import repeatable
from fedeas_app.local import Job, train_locally
from fedeas_app.oui import aggregation_weights
from fedeas_app.settings import Settings

CPU = torch.device("cpu")
SHARE = 0.02  # the goal for a client
SLOWEST = {100: 1.0, 100_000: 100.0}  # the goals for the server: milliseconds for so many clients


def main(
    dataset: Dataset = "digits",
    clients: int = 20,
    model: str = "cnn",
    repeats: int = 7,
    quick: bool = False,
) -> None:
    """Print both tables, and the goals."""
    if quick:  # of the digits, more clients would have a batch or two each
        clients, repeats = 2, 3
    share = client_side(dataset, clients, model, repeats)
    print()
    took = server_side((100, 1_000) if quick else (100, 1_000, 10_000, 100_000), repeats)
    print_goals(goals(share, took))


def goals(share: float, took: dict[int, float]) -> Iterator[tuple[str, str, bool]]:
    """Yield what is asked for, what came out, and whether that is enough."""
    yield f"OUI in {SHARE:.0%} of local training", f"{share:.2%}", share <= SHARE
    for count, limit in SLOWEST.items():
        if count in took:
            told = f"fit, scores and weights of {count:,} clients in {limit:g} ms"
            yield told, f"{took[count]:.2f} ms", took[count] <= limit


def client_side(dataset: str, clients: int, model: str, repeats: int) -> float:
    """Time one client's epoch and its OUI in turns, and return OUI's share."""
    settings = Settings.parse(
        {
            "dataset": dataset, "num-clients": clients, "partitioner": "iid", "policy": "none",
            "local-epochs": 1, "model": model, "device": "cpu",
        }
    )  # fmt: skip
    client = Client(settings, 0, clients)
    network, examples = client.model(), client.examples(Order())
    sides: dict[str, Callable[[], object]] = {
        "an epoch": lambda: train_locally(Job(network, examples, settings, client.rng(1))),
        "OUI": partial(client.oui, network, CPU),
    }
    with repeatable(settings.threads):
        seconds = median_of_turns(sides, repeats)
    rows = [(name, f"{1000 * value:.2f}") for name, value in seconds.items()]
    print(f"{model}, {len(examples):,} images of {examples.images.shape[-1]} pixels a side\n")
    print_table(("what", "ms"), rows)
    return seconds["OUI"] / seconds["an epoch"]


def server_side(counts: tuple[int, ...], repeats: int) -> dict[int, float]:
    """Time the fit, the scores and the weights of a round; return the milliseconds of each size."""
    took = {count: server_step(count, repeats) for count in counts}
    print_table(("clients", "ms"), ((f"{n:,}", f"{ms:.3f}") for n, ms in took.items()))
    return took


def server_step(count: int, repeats: int) -> float:
    """Return the median milliseconds for so many clients."""
    rng = np.random.default_rng(0)
    values, sizes = rng.beta(2, 6, count), rng.integers(1, 5000, count)
    seconds = median_of_turns({"": partial(aggregation_weights, sizes, values)}, 10 * repeats)
    return 1000 * seconds[""]


if __name__ == "__main__":
    command(main)
