"""One client: its images, what it lacks, and what it makes of it.

Built anew for every message: deployed, each message runs in a fresh process.
"""

from dataclasses import dataclass
from functools import cached_property
from logging import WARNING
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Context
from flwr.common.logger import log
from numpy.typing import NDArray

from fedeas_app import budget, oui, seeds
from fedeas_app.client_state import Address, ClientState
from fedeas_app.data import Split, load_own, load_split, observed_labels, partition
from fedeas_app.data.remarks import empty_folders
from fedeas_app.devices import pixel_environment
from fedeas_app.errors import PublicError
from fedeas_app.generators import Generator, at_float32, open_generator, require_fit
from fedeas_app.generators.cache import Drawer
from fedeas_app.generators.federated import handout
from fedeas_app.local import Examples
from fedeas_app.local.divergence import require_finite
from fedeas_app.local.examples import normalise
from fedeas_app.models import Classifier, chosen_layers, make_model
from fedeas_app.node import NodeSettings
from fedeas_app.settings import FEDERATED, Settings


@dataclass(frozen=True)
class Order:
    """What the server decided for one client's synthesis.

    Attributes
    ----------
    beta : float
        β; for ``beta = "auto"`` the server resolved it.
    share : int
        This client's part of the total T, for the policies that split a total.
    generator : str
        The digest that this client's generator must have; empty: any.
    """

    beta: float = 0.0
    share: int = 0
    generator: str = ""


@dataclass(frozen=True)
class Synthesis:
    """The synthetic images of a client, how many of them had to be made just now, and by what.

    Attributes
    ----------
    generator : str
        Its digest, at full precision; empty where no image is needed.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    made: int
    generator: str = ""


class Client:
    """A client of the federation, as its own machine sees it.

    Parameters
    ----------
    settings : Settings
    partition_id : int
        Which part of the dataset is this client's.
    num_partitions : int
        Into how many parts the dataset is split.
    data_path : Path, optional
        Where its own images are, for ``dataset = "own"``.
    """

    def __init__(
        self,
        settings: Settings,
        partition_id: int,
        num_partitions: int,
        data_path: Path | None = None,
    ) -> None:
        self.settings = settings
        self.partition_id = partition_id
        self.num_partitions = num_partitions
        self.data_path = data_path

    @classmethod
    def from_context(cls, context: Context) -> "Client":
        """Read the run configuration and the node's own.

        Raises
        ------
        UserError
            One of them is not valid, or they do not go together.
        """
        node, settings = NodeSettings.parse(context.node_config), Settings.parse(context.run_config)
        count = node.count_partitions(settings)
        return cls(node.localise(settings), node.partition_id, count, node.own_data(settings))

    @cached_property
    def dataset(self) -> Split:
        """The whole training set, memory-mapped."""
        if self.data_path is None:
            return load_split(self.settings, "train")
        return load_own(self.settings, self.data_path, "train")

    @cached_property
    def held_out(self) -> Split:
        """Own images that are never trained on; of a shared dataset, its test set."""
        if self.data_path is None:
            return load_split(self.settings, "test")
        return load_own(self.settings, self.data_path, "test")

    def check(self) -> None:
        """Look at own data early: tell of empty folders, decode what will be evaluated on.

        Raises
        ------
        UserError
            An image cannot be read.
        """
        if self.data_path is None:
            return
        for line in empty_folders(self.settings.reading(str(self.data_path))):
            log(WARNING, line)
        if not self.settings.test_dataset:
            _ = self.held_out

    @cached_property
    def indices(self) -> NDArray[np.int64]:
        """Which images of the training set are this client's."""
        if self.data_path is not None:
            return np.arange(len(self.dataset.labels))
        parts = partition(self.dataset.labels, self.num_partitions, self.settings)
        return parts[self.partition_id]

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """The labels of this client's real images, as it sees them: some may be wrong."""
        true, classes = self.dataset.labels[self.indices], len(self.dataset.class_names)
        return observed_labels(true, self.partition_id, self.num_partitions, classes, self.settings)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """n_k^c, shape (1, C). They never leave the client."""
        classes = len(self.dataset.class_names)
        return np.bincount(self.labels, minlength=classes).astype(np.int64)[None, :]

    def need(self, order: Order) -> NDArray[np.int64]:
        """Return g_k^c, the synthetic images wanted of each class, shape (C,)."""
        policy = self.settings.policy
        total = order.share if policy in budget.TOTAL_POLICIES else None
        need: NDArray[np.int64] = budget.allocate(
            self.counts, policy, beta=order.beta, total=total
        )[0]
        return need

    def told(self, order: Order) -> "Client":
        """Return this client with the settings that find the generator of its order."""
        settings = handout.told(self.settings, order.generator)
        if settings is self.settings:
            return self
        return Client(settings, self.partition_id, self.num_partitions, self.data_path)

    def keep_generator(self, order: Order, files: ArrayRecord | None) -> None:
        """Put a generator that came with an order into the cache.

        Raises
        ------
        UserError
            It cannot be used, or the cache cannot be written.
        """
        if files and self.settings.generator == FEDERATED:
            handout.keep(files, self.told(order).settings)

    def synthesise(self, order: Order) -> Synthesis:
        """Return this client's synthetic images, making those that its cache lacks."""
        need = self.need(order)
        if not need.any():
            empty = np.empty((0, *self.dataset.image_shape), np.uint8)
            return Synthesis(empty, np.empty(0, np.int64), 0)
        told = self.told(order)
        digest = open_generator(at_float32(told.settings)).digest
        if order.generator not in ("", digest):
            raise PublicError(
                f"Partition {self.partition_id} has the generator {digest}, but the run asks for "
                f"{order.generator}."
            )
        return Synthesis(*told.drawer.fetch(need), digest)

    @property
    def drawer(self) -> Drawer:
        """Where this client's synthetic images are."""
        settings = self.settings
        machine = pixel_environment(settings.device)
        return Drawer(
            settings.cache_path, self._generator, self._seed, machine, settings.cache_limit_gb
        )

    def examples(self, order: Order) -> Examples:
        """Return real ∪ synthetic."""
        synthetic = self.synthesise(order)
        images = np.concatenate([self.dataset.images[self.indices], synthetic.images])
        return Examples.from_arrays(images, np.concatenate([self.labels, synthetic.labels]))

    def model(self) -> Classifier:
        """Return the classifier, its weights still to be loaded."""
        return make_model(self.settings, self.dataset.image_shape, len(self.dataset.class_names))

    def state(self, address: Address | None) -> ClientState:
        """Return where this client keeps what it needs in its next round."""
        return ClientState(self.settings.cache_path, address, self.partition_id)

    def rng(self, server_round: int) -> torch.Generator:
        """Return the stream of this client in this round."""
        return seeds.torch_rng("train", self.settings.seed, server_round, self.partition_id)

    @torch.inference_mode()
    def oui(self, model: Classifier, device: torch.device) -> float:
        """Return OUI_k of the trained model on the fixed probe batch of real images.

        With ``oui-layers`` the mean over all or the last hidden layers.

        Raises
        ------
        PublicError
            Training diverged so far that the layer overflows.
        """
        probe = self.dataset.images[self.indices[self._probe()]]
        images = Examples.from_arrays(probe, np.zeros(len(probe), np.int64)).images
        model.eval()
        batch = normalise(images.to(device))
        layers = chosen_layers(model, batch, self.settings.oui_layers)
        require_finite(layers, self.settings)
        return float(np.mean([oui.oui(z.flatten(1).cpu().numpy()) for z in layers]))

    def _probe(self) -> NDArray[np.int64]:
        """Choose the probe batch: the same every round, with replacement where images are few."""
        rng = seeds.numpy_rng("probe", self.settings.seed, self.partition_id)
        size, available = self.settings.oui_probe_size, len(self.indices)
        return rng.choice(available, size, replace=available < size)

    @property
    def _seed(self) -> int:
        return seeds.derive("client", self.settings.seed, self.partition_id)

    @cached_property
    def _generator(self) -> Generator:
        generator = open_generator(self.settings)
        require_fit(generator, self.dataset.class_names, self.dataset.image_shape)
        return generator
