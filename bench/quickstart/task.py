"""The network, the data and the loops, as a first Flower app has them."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from datasets import Dataset, load_dataset
from flwr_datasets.partitioner import IidPartitioner
from torch import nn
from torch.utils.data import DataLoader
from torchvision.transforms import Compose, Normalize, ToTensor

# To [-2, 2], as the application scales pixels.
to_pixels = Compose([ToTensor(), Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))])


def make_net() -> nn.Module:
    """Return the CNN that the application has under the same name."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 8 * 8, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def transform(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Make tensors of the images of a batch, one by one."""
    return {"img": [to_pixels(image) for image in rows["img"]], "label": rows["label"]}


@cache
def split(dataset: str, name: str, images: int) -> Dataset:
    """Load a split, once for each process."""
    rows = load_dataset(dataset, split=name)
    return rows.select(range(images)) if images else rows


def client_batches(config: dict[str, Any], partition: int, partitions: int) -> Iterable[Any]:
    """Return a client's batches."""
    partitioner = IidPartitioner(partitions)
    partitioner.dataset = split(config["dataset"], "train", config["train-images"])
    rows = partitioner.load_partition(partition).with_transform(transform)
    return DataLoader(rows, batch_size=config["batch-size"], shuffle=True)


def test_batches(config: dict[str, Any]) -> Iterable[Any]:
    """Return the batches of the test set."""
    rows = split(config["dataset"], "test", config["test-images"])
    return DataLoader(rows.with_transform(transform), batch_size=128)


def train(net: nn.Module, batches: Iterable[Any], config: dict[str, Any]) -> float:
    """Train for an epoch; return the mean loss of its batches."""
    optimizer = torch.optim.SGD(
        net.parameters(), lr=config["learning-rate"], momentum=config["momentum"]
    )
    criterion, total, count = nn.CrossEntropyLoss(), 0.0, 0
    net.train()
    for batch in batches:
        optimizer.zero_grad()
        loss = criterion(net(batch["img"]), batch["label"])
        loss.backward()
        optimizer.step()
        total, count = total + loss.item(), count + 1
    return total / count


def accuracy(net: nn.Module, batches: Iterable[Any]) -> float:
    """Return the share of images that are named right."""
    net.eval()
    right = count = 0
    with torch.no_grad():
        for batch in batches:
            right += int((net(batch["img"]).argmax(1) == batch["label"]).sum())
            count += len(batch["label"])
    return right / count
