"""The models that came back in a round: checked, kept off the heap, averaged in client order."""

import math
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain, product
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from fedeas_app.arrays import decode
from fedeas_app.errors import UserError
from fedeas_app.processes import cores

_IN_MEMORY = 2**21  # bytes; what exceeds it goes to a temporary file
_BLOCK = 2**21  # numbers of all clients together that are looked at side by side
# Numbers of one client that are worked on at a time: they stay in a core's cache, and Linux takes
# several times as long to write the same bytes by some megabytes at a time.
_PART = 2**15

# From the values of n clients, shape (n, m), to one value for each of the m coordinates.
Rule = Callable[[NDArray[Any]], NDArray[Any]]


T = TypeVar("T")


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
        self._global = arrays
        self._layout, self._size = _lay_out(arrays)
        self._slots: dict[int, int] = {}
        self._factors: dict[int, float] = {}
        self._clipped: Collection[str] = ()
        self._lock = Lock()  # of the place in the file
        self._threads = ThreadPoolExecutor(cores())
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # closed in __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._threads.shutdown()
        self._file.close()

    def add(self, partition: int, arrays: ArrayRecord) -> None:
        """Check a client's model and keep it.

        Raises
        ------
        BadReplyError
            Names, shapes or types differ from the global model's, or a value is not finite.
        UserError
            The temporary file has no room.
        """
        try:
            self._file.seek(len(self._slots) * self._size)
            for name, array in self._fitting(arrays):
                self._keep(name, np.ascontiguousarray(array).ravel())
            self._file.flush()
        except OSError as error:
            raise UserError(
                f"A round's replies do not fit into {tempfile.gettempdir()} ({error.strerror}); "
                "free some space there, or set TMPDIR to a directory with room."
            ) from error
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
        merged = {name: self._as_stored(name, self._merge(weights, name)) for name in self._layout}
        return ArrayRecord(merged)

    def combine(self, partitions: Sequence[int], rule: Rule) -> ArrayRecord:
        """Return what a rule makes of these clients' values, coordinate by coordinate.

        In the type of the model; of counters, which have no mean, the lower median is taken.

        Parameters
        ----------
        partitions : sequence of int
        rule : callable
            Gets a block of coordinates in float64, shape (n, m), and returns shape (m,).
        """
        return ArrayRecord({n: self._combined(n, partitions, rule) for n in self._layout})

    def clip(self, factors: Mapping[int, float], names: Collection[str]) -> None:
        """From now on, take w_t + f_k·Δ_k for the model of each partition k.

        Parameters
        ----------
        factors : mapping of int to float
            f_k of each partition; 1 leaves its model as it is, to the bit.
        names : collection of str
            The floating-point arrays that count, such as the trainable parameters.
        """
        self._factors, self._clipped = dict(factors), names

    def norms(self, names: Collection[str]) -> dict[int, float]:
        """Return ‖Δ_k‖ of each partition over these floating-point arrays, as `clip` left it."""
        squares = dict.fromkeys(sorted(self._slots), 0.0)
        for name in self._in_order(names):
            w_t = self._start(name)
            for part, k in product(_parts(w_t.size), squares):
                delta = self._delta(k, name, part, w_t)
                squares[k] += _dot(delta, delta)
        return {k: math.sqrt(square) for k, square in squares.items()}

    def blocks(
        self, name: str, partitions: Sequence[int]
    ) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield an array of these clients side by side, and of w_t, some coordinates at a time.

        So that rules that look at all clients at once need memory for a block, not for all models.

        Yields
        ------
        tuple of ndarray, shapes (n, m) and (m,)
            Of float64; of counters, in their own type.
        """
        count = self._layout[name].size
        w_t = self._global[name].numpy().ravel()
        width = max(1, _BLOCK // len(partitions))
        for start in range(0, count, width):
            part = slice(start, min(start + width, count))
            block = np.stack([self._values(k, name, part) for k in partitions])
            yield _wide(block), _wide(w_t[part])

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
        mean_square = 0.0
        for name in self._in_order(names):
            w_t = self._start(name)
            mean = self._merge(weights, name).astype(np.float64) - w_t
            mean_square += _dot(mean, mean)
            measure = partial(self._measure, name, list(squares), w_t, mean)
            for k, square, inner in chain.from_iterable(self._of_parts(w_t.size, measure)):
                squares[k] += square
                products[k] += inner
        return Spread(squares, products, mean_square)

    def _measure(
        self,
        name: str,
        partitions: list[int],
        w_t: NDArray[np.float64],
        mean: NDArray[np.float64],
        part: slice,
    ) -> list[tuple[int, float, float]]:
        """Return k, ‖Δ_k‖² and ⟨Δ_k, Δ̄⟩ of each client, over a part of an array."""
        deltas = ((k, self._delta(k, name, part, w_t)) for k in partitions)
        return [(k, _dot(delta, delta), _dot(delta, mean[part])) for k, delta in deltas]

    def _in_order(self, names: Collection[str]) -> list[str]:
        return [name for name in self._layout if name in names]

    def _start(self, name: str) -> NDArray[np.float64]:
        return self._global[name].numpy().ravel().astype(np.float64)

    def _merge(self, weights: Mapping[int, float], name: str) -> NDArray[np.generic]:
        # Who weighs nothing has no say in counters either.
        partitions = sorted(k for k, weight in weights.items() if weight)
        if not np.issubdtype(self._layout[name].dtype, np.floating):
            return reduce(np.maximum, (self._values(k, name) for k in partitions))
        merged = np.zeros(self._layout[name].size)

        def add_up(part: slice) -> None:
            for k in partitions:
                values = self._values(k, name, part)
                merged[part] += np.multiply(values, weights[k], dtype=np.float64)

        list(self._of_parts(merged.size, add_up))
        return merged

    def _of_parts(self, size: int, work: Callable[[slice], T]) -> Iterator[T]:
        """Yield what comes of each part of so many numbers, in order, on all cores.

        Every part is worked on by one thread from start to end, so that no bit depends on how many
        there are.
        """
        if size <= _PART:
            return map(work, _parts(size))
        return self._threads.map(work, _parts(size))

    def _delta(
        self, partition: int, name: str, part: slice, w_t: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return a part of Δ_k."""
        values = self._values(partition, name, part)
        delta: NDArray[np.float64] = np.subtract(values, w_t[part], dtype=np.float64)
        return delta

    def _combined(self, name: str, partitions: Sequence[int], rule: Rule) -> Array:
        dtype = self._layout[name].dtype
        if not np.issubdtype(dtype, np.floating):
            rule = _lower_median
        parts = [rule(block) for block, _ in self.blocks(name, partitions)]
        return self._as_stored(name, np.concatenate([np.empty(0, dtype), *parts]))

    def _as_stored(self, name: str, values: NDArray[np.generic]) -> Array:
        return Array(np.asarray(values, self._layout[name].dtype).reshape(self._layout[name].shape))

    def _values(self, partition: int, name: str, part: slice | None = None) -> NDArray[np.generic]:
        """Return a model's array, or a part of it, as it counts: clipped where it is to be."""
        part = part or slice(0, self._layout[name].size)
        values = self._read(partition, name, part)
        factor = self._factors.get(partition, 1.0)
        if factor == 1 or name not in self._clipped:
            return values
        w_t = self._global[name].numpy().ravel()[part].astype(np.float64)
        return w_t + factor * (values.astype(np.float64) - w_t)

    def _read(self, partition: int, name: str, part: slice) -> NDArray[np.generic]:
        _, dtype, offset, _ = self._layout[name]
        values = np.empty(part.stop - part.start, dtype)
        begin = self._slots[partition] * self._size + offset + part.start * dtype.itemsize
        with self._lock:
            self._file.seek(begin)
            self._file.readinto(values.data)
        return values

    def _fitting(self, arrays: ArrayRecord) -> Iterator[tuple[str, NDArray[np.generic]]]:
        """Yield the arrays of a reply, each of the name, shape and type that it has to have."""
        if list(arrays) != list(self._layout):
            raise BadReplyError("the names of its arrays are not those that were sent")
        for name, (shape, dtype, *_) in self._layout.items():
            array = _decode(name, arrays[name])
            if array.shape != shape or array.dtype != dtype:
                raise BadReplyError(
                    f"{name} is {array.dtype}{list(array.shape)}, not {dtype}{list(shape)}"
                )
            yield name, array

    def _keep(self, name: str, values: NDArray[np.generic]) -> None:
        """Write an array, looking at each of its values on the way.

        What a reply has left there when it turns out to be bad is overwritten by the next.
        """
        for part in _parts(values.size):
            if not np.isfinite(values[part]).all():
                raise BadReplyError(f"{name} holds values that are not finite")
            self._file.write(values[part].data)


class _Place(NamedTuple):
    """Where an array lies within a model: its offset in bytes, and how many numbers it has."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    offset: int
    size: int


def _lay_out(arrays: ArrayRecord) -> tuple[dict[str, _Place], int]:
    """Return the place of each array, one after the other, and the bytes of all."""
    places, offset = {}, 0
    for name, array in arrays.items():
        values = array.numpy()
        places[name] = _Place(values.shape, values.dtype, offset, values.size)
        offset += values.nbytes
    return places, offset


def _parts(size: int) -> Iterator[slice]:
    """Yield the parts of so many numbers, in order."""
    return (slice(start, min(start + _PART, size)) for start in range(0, size, _PART))


def _dot(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the inner product, on one thread: its bits are the same on any number of cores."""
    return float(np.einsum("i,i->", one, other))


def _wide(values: NDArray[np.generic]) -> NDArray[Any]:
    floating = np.issubdtype(values.dtype, np.floating)
    return values.astype(np.float64) if floating else values


def _lower_median(block: NDArray[Any]) -> NDArray[Any]:
    """Return, of each coordinate, the value in the middle: one that a client sent."""
    middle: NDArray[Any] = np.sort(block, axis=0)[(len(block) - 1) // 2]
    return middle


def _decode(name: str, array: Array) -> NDArray[np.generic]:
    try:
        return decode(array)
    except ValueError as error:
        raise BadReplyError(f"{name} cannot be decoded: {error}") from error
