"""The floor of a round: one plain PyTorch process that trains the clients one after the other.

The same images, weights, batches, order and arithmetic as a `fedavg` run of the application without
synthesis, and nothing else: no Flower, no messages, no other process. It writes the seconds of each
round, the accuracy after it and the final weights.
"""

import json
import time
from pathlib import Path

import numpy as np
import torch
import typer
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

from fedeas_app import seeds
from fedeas_app.data import load_split, partition
from fedeas_app.models import Classifier, make_model
from fedeas_app.settings import Settings, read_toml

Images = tuple[torch.Tensor, torch.Tensor]  # uint8 (n, channels, height, width), and labels
Weights = dict[str, torch.Tensor]


def main(config: Path, out: Path, threads: int = 1) -> None:
    """Train for the rounds of a configuration; leave ``floor.json`` and ``floor.safetensors``."""
    torch.set_num_threads(threads)
    settings = Settings.parse(read_toml(config))
    train, test = load_split(settings, "train"), load_split(settings, "test")
    model = make_model(settings, train.image_shape, len(train.class_names))
    parts = partition(train.labels, int(settings.num_clients), settings)
    clients = [as_tensors(train.images[part], train.labels[part]) for part in parts]
    held_out = as_tensors(np.array(test.images), test.labels)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    accuracies, seconds = [accuracy(model, held_out)], []
    for server_round in range(1, settings.rounds + 1):
        begin = time.perf_counter()
        weights = one_round(model, weights, clients, settings, server_round)
        model.load_state_dict(weights)
        accuracies.append(accuracy(model, held_out))
        seconds.append(time.perf_counter() - begin)
    packed = {name: value.contiguous() for name, value in weights.items()}
    save_file(packed, out / "floor.safetensors")
    result = {"seconds": seconds, "accuracies": accuracies}
    (out / "floor.json").write_text(json.dumps(result))


def as_tensors(images: np.ndarray, labels: np.ndarray) -> Images:
    """Take stored images, channels last in memory."""
    return torch.from_numpy(images).permute(0, 3, 1, 2), torch.from_numpy(np.array(labels))


def one_round(
    model: Classifier,
    weights: Weights,
    clients: list[Images],
    settings: Settings,
    server_round: int,
) -> Weights:
    """Train every client from the same weights and return the weighted mean, summed in float64."""
    total = sum(len(labels) for _, labels in clients)
    mean = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in weights.items()}
    for number, (images, labels) in enumerate(clients):
        model.load_state_dict(weights)
        rng = seeds.torch_rng("train", settings.seed, server_round, number)
        train(model, images, labels, settings, rng)
        for name, value in model.state_dict().items():
            mean[name] += len(labels) / total * value.double()
    return {name: value.to(weights[name].dtype) for name, value in mean.items()}


def train(
    model: Classifier,
    images: torch.Tensor,
    labels: torch.Tensor,
    settings: Settings,
    rng: torch.Generator,
) -> None:
    """Do a client's local epochs, as any PyTorch tutorial does."""
    optimizer = torch.optim.SGD(model.parameters(), settings.learning_rate, settings.momentum)
    model.train()
    for _ in range(settings.local_epochs):
        for chosen in torch.randperm(len(labels), generator=rng).split(settings.batch_size):
            loss = cross_entropy(model(normalise(images[chosen])), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.inference_mode()
def accuracy(model: Classifier, held_out: Images, batch: int = 64) -> float:
    """Return the share of test images that are named right."""
    model.eval()
    batches = zip(*(tensor.split(batch) for tensor in held_out), strict=True)
    right = [int((model(normalise(x)).argmax(1) == y).sum()) for x, y in batches]
    return sum(right) / len(held_out[1])


def normalise(images: torch.Tensor) -> torch.Tensor:
    """Scale pixels as the application does."""
    return images.float() / 63.75 - 2


if __name__ == "__main__":
    typer.run(main)
