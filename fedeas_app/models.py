"""The classifiers, each naming its hidden pre-activations, for OUI, and its representation."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import nn

from fedeas_app import seeds
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings


class Classifier(nn.Module, ABC):
    """A network whose hidden layers can be looked at before their non-linearity."""

    @abstractmethod
    def preactivations(self, images: torch.Tensor) -> torch.Tensor:
        """Return z, the input of the last hidden layer's ReLU; the first axis is the batch."""

    @abstractmethod
    def hidden_layers(self, images: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yield the input of each hidden layer's ReLU, the last hidden layer's at the end."""

    @abstractmethod
    def representation(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return what the output layer sees of the activated hidden layer, shape (batch, d)."""

    @abstractmethod
    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map the activated last hidden layer to logits, shape (batch, classes)."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits, shape (batch, classes), of images (batch, channels, height, width)."""
        return self.head(torch.relu(self.preactivations(images)))


class SmallCnn(Classifier):
    """The CNN of FedOUI (arXiv 2605.11571), sized to the input.

    Two 3x3 convolutions (32 and 64 channels), each with ReLU and 2x2 pooling, a hidden layer of 128
    units (the penultimate one) and the output. No normalisation layers.
    """

    def __init__(self, channels: int, height: int, width: int, num_classes: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(),
        )  # fmt: skip
        self.hidden = nn.Linear(64 * (height // 4) * (width // 4), 128)
        self.output = nn.Linear(128, num_classes)

    def preactivations(self, images: torch.Tensor) -> torch.Tensor:
        """Return the hidden layer before its ReLU, shape (batch, 128)."""
        hidden: torch.Tensor = self.hidden(self.convolutions(images))
        return hidden

    def hidden_layers(self, images: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yield both convolutions and the hidden layer before their ReLU."""
        x = images
        for module in self.convolutions:
            if isinstance(module, nn.ReLU):
                yield x
            x = module(x)
        yield self.hidden(x)

    def representation(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the activated hidden layer as it is, shape (batch, 128)."""
        return hidden

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        logits: torch.Tensor = self.output(hidden)
        return logits


class ResNet18(Classifier):
    """torchvision's ResNet-18 for small images: a 3x3 stem of stride 1 and no pooling after it.

    The last hidden layer is the last block's sum, (batch, 512, height / 8, width / 8).
    """

    def __init__(self, channels: int, num_classes: int, norm: str) -> None:
        from torchvision.models import (
            resnet18,
        )  # late: it takes seconds, and a small CNN needs none

        super().__init__()
        layer: Callable[..., nn.Module] = partial(nn.GroupNorm, 32)
        self.net = resnet18(
            num_classes=num_classes, norm_layer=layer if norm == "group" else nn.BatchNorm2d
        )
        self.net.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        self.net.maxpool = nn.Identity()

    def preactivations(self, images: torch.Tensor) -> torch.Tensor:
        """Return the last block's sum before its ReLU."""
        net = self.net
        x = net.layer3(net.layer2(net.layer1(net.relu(net.bn1(net.conv1(images))))))
        return _before_last_relu(net.layer4[1], net.layer4[0](x))

    def hidden_layers(self, images: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yield the stem and the sum of each of the eight blocks before their ReLU."""
        net = self.net
        x = net.bn1(net.conv1(images))
        yield x
        for block in chain(net.layer1, net.layer2, net.layer3, net.layer4):
            x = _before_last_relu(block, torch.relu(x))
            yield x

    def representation(self, hidden: torch.Tensor) -> torch.Tensor:
        """Pool, shape (batch, 512)."""
        pooled: torch.Tensor = self.net.avgpool(hidden)
        return pooled.flatten(1)

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Pool and classify."""
        logits: torch.Tensor = self.net.fc(self.representation(hidden))
        return logits


def chosen_layers(model: Classifier, images: torch.Tensor, which: int | str) -> list[torch.Tensor]:
    """Return the pre-activations of hidden layers: 'penultimate', 'all', or the last so many."""
    if which in ("penultimate", 1):
        return [model.preactivations(images)]
    layers = list(model.hidden_layers(images))
    return layers if which == "all" else layers[-int(which) :]


def make_model(settings: Settings, image_shape: tuple[int, int, int], classes: int) -> Classifier:
    """Return the classifier of the settings with weights that depend on the seed alone.

    Parameters
    ----------
    settings : Settings
    image_shape : tuple of int
        (height, width, channels).
    classes : int

    Raises
    ------
    UserError
        The images are too small for the network.
    """
    height, width, channels = image_shape
    least = _least_size(settings)
    if min(height, width) < least:
        raise UserError(
            f"model {settings.model!r} needs images of at least {least}x{least} pixels, but "
            f"these have {width}x{height}; set image-size to {least} or more."
        )
    with seeds.global_torch_seed("model", settings.seed):
        model = (
            SmallCnn(channels, height, width, classes)
            if settings.model == "cnn"
            else ResNet18(channels, classes, settings.norm)
        )
    return model.to(memory_format=torch.channels_last)


def _least_size(settings: Settings) -> int:
    """Return the fewest pixels a side that the network can take."""
    if settings.model == "cnn":
        return 4
    # Batch normalisation needs two values of each channel, also of a last batch of one image.
    return 8 if settings.norm == "group" else 16


def _before_last_relu(block: Any, x: torch.Tensor) -> torch.Tensor:
    """Run a residual block up to, not including, the ReLU after its sum."""
    out = block.relu(block.bn1(block.conv1(x)))
    skip = x if block.downsample is None else block.downsample(x)
    total: torch.Tensor = block.bn2(block.conv2(out)) + skip
    return total
