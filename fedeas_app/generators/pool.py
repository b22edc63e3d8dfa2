"""A generator that draws real images from a pool: public proxy data, or the upper bound."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedeas_app.data import Split, load_split
from fedeas_app.errors import UserError
from fedeas_app.files import sha256
from fedeas_app.generators.protocol import OnBatch
from fedeas_app.settings import Settings


class Pool:
    """Images of the asked-for class, drawn evenly and with replacement.

    Parameters
    ----------
    settings : Settings
        ``pool_dataset`` names the labelled images, as ``dataset`` does; their training part is
        used, brought to ``image_size``.

    Raises
    ------
    UserError
        No pool is named.
    """

    name = "'pool'"

    def __init__(self, settings: Settings) -> None:
        if not settings.pool_dataset:
            raise UserError(
                "generator is 'pool', but pool-dataset is empty; name a labelled image set there, "
                "as for `dataset`."
            )
        self._settings = settings.reading(settings.pool_dataset)

    @cached_property
    def _split(self) -> Split:
        return load_split(self._settings, "train")

    @cached_property
    def _rows(self) -> list[NDArray[np.int64]]:
        """The rows of each class."""
        return [np.flatnonzero(self._split.labels == label) for label in range(self.num_classes)]

    @property
    def digest(self) -> str:
        """Hash of the pool's images and labels."""
        return sha256(f"pool {self._split.digest}".encode())

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes of the pool."""
        return self._split.class_names

    @property
    def num_classes(self) -> int:
        """Number of classes of the pool."""
        return len(self._split.class_names)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the pool's images."""
        return self._split.image_shape

    def generate(
        self,
        labels: NDArray[np.int64],
        seeds: NDArray[np.int64],
        on_batch: OnBatch | None = None,
    ) -> NDArray[np.uint8]:
        """Draw one image for each label; see :class:`fedeas_app.generators.Generator`."""
        rows = [self._draw(int(la), int(se)) for la, se in zip(labels, seeds, strict=True)]
        images = np.asarray(self._split.images[np.array(rows, np.int64)])
        if on_batch is not None and len(labels):
            on_batch(slice(0, len(labels)), images)
        return images

    def _draw(self, label: int, seed: int) -> int:
        return int(np.random.default_rng(seed).choice(self._rows[label]))
