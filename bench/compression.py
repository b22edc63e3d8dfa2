"""Accuracy beside bytes: what clients send in 32, 16 and 8 bits a number, over rounds of FedAvg.

Real clients, Dirichlet skew, in one process. Bytes are those of all arrays of all replies.

    python bench/compression.py
    python bench/compression.py --dataset ~/cifar10 --images 10000 --rounds 20
"""

import statistics
from collections.abc import Mapping

import torch
from flwr.app import ArrayRecord
from measuring import Dataset, command, megabytes, print_table

from fedeas_app.client import Client, Order
from fedeas_app.compression import compressed, decompressed
from fedeas_app.data import load_split
from fedeas_app.devices import repeatable
from fedeas_app.evaluation import Evaluator
from fedeas_app.local import Job, train_locally
from fedeas_app.local.job import trainable
from fedeas_app.settings import Settings
from fedeas_app.strategies.updates import Updates

METHODS = ("none", "fp16", "int8")


def main(
    dataset: Dataset = "digits",
    clients: int = 10,
    images: int = 0,
    rounds: int = 15,
    seeds: int = 3,
    quick: bool = False,
) -> None:
    """Print a table."""
    if quick:
        clients, images, rounds, seeds = 3, 300, 2, 1
    print(f"{rounds} rounds of {clients} clients, mean of {seeds} seeds\n")
    print_table(
        ("compression", "sent", "accuracy", "after half the rounds"),
        (row(method, dataset, clients, images, rounds, seeds) for method in METHODS),
    )


def row(
    method: str, dataset: str, clients: int, images: int, rounds: int, seeds: int
) -> tuple[str, ...]:
    """Return a line of the table."""
    runs = []
    for seed in range(seeds):
        keys = {
            "dataset": dataset, "num-clients": clients, "train-samples": images, "seed": seed,
            "rounds": rounds, "policy": "none", "strategy": "fedavg", "device": "cpu",
            "compression": method, "alpha": 0.3,
        }  # fmt: skip
        runs.append(train(Settings.parse(keys)))
    final, half = (statistics.mean(run[0][at] for run in runs) for at in (-1, rounds // 2 - 1))
    sent = statistics.mean(run[1] for run in runs)
    return method, megabytes(sent), f"{final:.4f}", f"{half:.4f}"


def train(settings: Settings) -> tuple[list[float], int]:
    """Return the accuracy after each round, and the bytes that all clients sent."""
    clients = [Client(settings, k, int(settings.num_clients)) for k in range(settings.num_clients)]
    model = clients[0].model()
    names = list(trainable(model))
    evaluate = Evaluator(clients[0].model(), load_split(settings, "test"), settings)
    arrays, kept = ArrayRecord(model.state_dict()), [{} for _ in clients]
    total = sum(len(client.indices) for client in clients)
    weights = {k: len(client.indices) / total for k, client in enumerate(clients)}
    accuracies, sent = [], 0
    for server_round in range(1, settings.rounds + 1):
        with Updates(arrays) as updates:
            for k, client in enumerate(clients):
                wire, kept[k] = reply(client, arrays, kept[k], server_round)
                sent += sum(len(array.data) for array in wire.values())
                updates.add(k, decompressed(wire, arrays, names, settings.compression))
            arrays = updates.average(weights)
        accuracies.append(evaluate(arrays)["accuracy"])
    return accuracies, sent


def reply(
    client: Client, arrays: ArrayRecord, kept: Mapping[str, torch.Tensor], server_round: int
) -> tuple[ArrayRecord, dict[str, torch.Tensor]]:
    """Return what a client sends, and what it keeps."""
    settings = client.settings
    with repeatable(settings.threads):
        model = client.model()
        model.load_state_dict(arrays.to_torch_state_dict())
        job = Job(model, client.examples(Order()), settings, client.rng(server_round))
        train_locally(job)
    trained = ArrayRecord(model.state_dict())
    return compressed(trained, arrays, trainable(model), kept, settings.compression)


if __name__ == "__main__":
    command(main)
