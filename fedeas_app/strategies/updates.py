"""The models that came back in a round: checked, kept off the heap, averaged in client order."""

import math
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import reduce
from types import TracebackType
from typing import Self

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

_IN_MEMORY = 64 * 2**20  # bytes; what exceeds it goes to a temporary file


class BadReplyError(ValueError):
    """A reply that must not count, with the reason."""


@dataclass(frozen=True)
class Spread:
    """How the updates Δ_k = w_k − w_t of a round lie around their weighted mean Δ̄.

    Attributes
    ----------
    squares : dict of int to float
        ‖Δ_k‖² of each partition.
    products : dict of int to float
        ⟨Δ_k, Δ̄⟩ of each partition.
    mean_square : float
        ‖Δ̄‖².
    """

    squares: dict[int, float]
    products: dict[int, float]
    mean_square: float

    def cosines(self) -> dict[int, float]:
        """Return cos(Δ_k, Δ̄) of each partition; 0 where either is 0."""
        lengths = {k: math.sqrt(square * self.mean_square) for k, square in self.squares.items()}
        return {k: self.products[k] / length if length else 0.0 for k, length in lengths.items()}

    def drifts(self) -> dict[int, float] | None:
        """Return ‖Δ_k − Δ̄‖² / ‖Δ̄‖² of each partition; None where Δ̄ is 0."""
        if not self.mean_square:
            return None
        return {
            k: max(0.0, square - 2 * self.products[k] + self.mean_square) / self.mean_square
            for k, square in self.squares.items()
        }


class Updates:
    """The client models of one round.

    Weights may depend on all replies (FedOUI fits a distribution to them), so no model can be added
    up when it arrives. They are written one after the other to a file instead: memory stays at
    about one model whatever the number of clients.

    Parameters
    ----------
    arrays : ArrayRecord
        The global model, whose names, shapes and types every reply must have.
    """

    def __init__(self, arrays: ArrayRecord) -> None:
        template = {name: array.numpy() for name, array in arrays.items()}
        self._global = arrays
        self._template = {name: (a.shape, a.dtype, a.nbytes) for name, a in template.items()}
        self._size = sum(a.nbytes for a in template.values())
        self._slots: dict[int, int] = {}
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # closed in __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, partition: int, arrays: ArrayRecord) -> None:
        """Check a client's model and keep it.

        Raises
        ------
        BadReplyError
            Names, shapes or types differ from the global model's, or a value is not finite.
        """
        data = self._checked(arrays)
        self._file.seek(len(self._slots) * self._size)
        for array in data:
            self._file.write(array.tobytes())
        self._slots[partition] = len(self._slots)

    def average(self, weights: Mapping[int, float]) -> ArrayRecord:
        """Return Σ_k w_k·(model of k), added up in order of partition.

        Floating-point arrays are summed in float64 and returned in their own type. Counters
        (integer buffers, such as the number of batches a normalisation layer has seen) have no
        meaningful mean: the largest is taken.

        Parameters
        ----------
        weights : mapping of int to float
            One weight for each partition added; they sum to 1.
        """
        merged: dict[str, Array] = {}
        offset = 0
        for name, (shape, dtype, nbytes) in self._template.items():
            values = self._merge(weights, offset, nbytes, dtype)
            merged[name] = Array(np.asarray(values, dtype).reshape(shape))
            offset += nbytes
        return ArrayRecord(merged)

    def spread(self, weights: Mapping[int, float], names: Collection[str]) -> Spread:
        """Measure the updates against their weighted mean, in a second pass over them.

        Array by array, and added up in order of partition: memory stays at about one array, and
        bits do not depend on the order of arrival.

        Parameters
        ----------
        weights : mapping of int to float
            One weight for each partition added; they sum to 1.
        names : collection of str
            The floating-point arrays that count, such as the trainable parameters.
        """
        squares, products = dict.fromkeys(sorted(weights), 0.0), dict.fromkeys(sorted(weights), 0.0)
        mean_square, offset = 0.0, 0
        for name, (_, dtype, nbytes) in self._template.items():
            if name in names:
                w_t = self._global[name].numpy().ravel().astype(np.float64)
                mean = self._merge(weights, offset, nbytes, dtype).astype(np.float64) - w_t
                mean_square += float((mean * mean).sum())
                for k in squares:
                    delta = self._read(k, offset, nbytes, dtype).astype(np.float64) - w_t
                    squares[k] += float((delta * delta).sum())
                    products[k] += float((delta * mean).sum())
            offset += nbytes
        return Spread(squares, products, mean_square)

    def _merge(
        self, weights: Mapping[int, float], offset: int, nbytes: int, dtype: np.dtype[np.generic]
    ) -> NDArray[np.generic]:
        partitions = sorted(weights)
        models = (self._read(partition, offset, nbytes, dtype) for partition in partitions)
        if not np.issubdtype(dtype, np.floating):
            return reduce(np.maximum, models)
        merged = np.zeros(nbytes // dtype.itemsize)
        for partition, values in zip(partitions, models, strict=True):
            merged += weights[partition] * values.astype(np.float64)  # else a float32 product
        return merged

    def _read(
        self, partition: int, offset: int, nbytes: int, dtype: np.dtype[np.generic]
    ) -> NDArray[np.generic]:
        self._file.seek(self._slots[partition] * self._size + offset)
        return np.frombuffer(self._file.read(nbytes), dtype)

    def _checked(self, arrays: ArrayRecord) -> list[NDArray[np.generic]]:
        if list(arrays) != list(self._template):
            raise BadReplyError("the names of its arrays are not those that were sent")
        data = []
        for name, (shape, dtype, _) in self._template.items():
            array = _decode(name, arrays[name])
            if array.shape != shape or array.dtype != dtype:
                raise BadReplyError(
                    f"{name} is {array.dtype}{list(array.shape)}, not {dtype}{list(shape)}"
                )
            if not np.isfinite(array).all():
                raise BadReplyError(f"{name} holds values that are not finite")
            data.append(array)
        return data


def _decode(name: str, array: Array) -> NDArray[np.generic]:
    try:
        return array.numpy()
    except (ValueError, TypeError, EOFError, OSError) as error:
        raise BadReplyError(f"{name} cannot be decoded: {error}") from error
