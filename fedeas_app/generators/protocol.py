"""What the application asks of a generator."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedeas_app.errors import UserError

OnBatch = Callable[[slice, NDArray[np.uint8]], None]


class Generator(Protocol):
    """A class-conditional image generator.

    The digest addresses cached images: two generators of one digest make the same images.
    """

    @property
    def name(self) -> str:
        """How the user named it."""
        ...

    @property
    def digest(self) -> str:
        """Hash of all that changes pixels."""
        ...

    @property
    def num_classes(self) -> int:
        """Labels it was trained on."""
        ...

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels)."""
        ...

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """What its labels mean, in their order; None where it does not say."""
        ...

    def generate(
        self,
        labels: NDArray[np.int64],
        seeds: NDArray[np.int64],
        on_batch: OnBatch | None = None,
    ) -> NDArray[np.uint8]:
        """Make one image for each label.

        Parameters
        ----------
        labels : array of int, shape (n,)
            In [0, num_classes).
        seeds : array of int, shape (n,)
            An image depends on its label and its seed, and on no other image.
        on_batch : callable, optional
            Called with the slice and the images of every finished batch.

        Returns
        -------
        array of uint8, shape (n, height, width, channels)
        """
        ...


@runtime_checkable
class Sampling(Protocol):
    """What a generator has besides if it samples from a network."""

    @property
    def how(self) -> str:
        """Sampler, steps and precision, for messages."""
        ...


def require_fit(
    generator: Generator, class_names: tuple[str, ...], image_shape: tuple[int, int, int]
) -> None:
    """Refuse a generator made for other classes, another order of them, or another image size.

    Raises
    ------
    UserError
        Names both sides.
    """
    if generator.num_classes != len(class_names):
        raise UserError(
            f"The generator {generator.name} knows {generator.num_classes} classes, but the "
            f"dataset has {len(class_names)}; name a generator trained on this dataset."
        )
    if generator.class_names not in (None, class_names):
        raise UserError(
            f"The generator {generator.name} knows the classes {_some(generator.class_names)}, but "
            f"the dataset has {_some(class_names)}; name a generator trained on this dataset."
        )
    if generator.image_shape != image_shape:
        raise UserError(
            f"The generator {generator.name} makes images of {_size(generator.image_shape)}, but "
            f"the dataset holds {_size(image_shape)}; name a generator trained on this dataset."
        )


def _size(shape: tuple[int, int, int]) -> str:
    height, width, channels = shape
    return f"{width}x{height} pixels and {channels} channel{'s' if channels > 1 else ''}"


def _some(names: tuple[str, ...] | None) -> str:
    shown = ", ".join((names or ())[:10])
    return shown + (", ..." if names and len(names) > 10 else "")
