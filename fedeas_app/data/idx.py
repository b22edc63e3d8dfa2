"""IDX files, the format of MNIST and Fashion-MNIST, plain or gzipped.

A header of big-endian numbers (0, 0, type 8 for bytes, number of dimensions, each dimension) and
then the bytes themselves.
"""

import gzip
import math
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedeas_app.data.decode import NamedImage
from fedeas_app.data.tables import Source, Table
from fedeas_app.errors import UserError

_UNSIGNED_BYTE = 8
_MAX_BYTES = 2**32  # a header is easily forged: nobody's images are larger in this format
_GZIP_FACTOR = 1032  # no byte of it unpacks to more
_IMAGES, _LABELS = "-images-idx3-ubyte", "-labels-idx1-ubyte"
_TRAIN, _TEST = "train", "t10k"


def is_idx_folder(root: Path) -> bool:
    """Tell whether a folder holds IDX files under their usual names."""
    return root.is_dir() and any(_file(root, _TRAIN + suffix) for suffix in (_IMAGES, _LABELS))


def idx_folder(root: Path) -> Source:
    """Open ``train-images-idx3-ubyte`` and its companions, ``t10k-…`` for the test set.

    Raises
    ------
    UserError
        A file is missing, damaged, or does not fit the others.
    """
    has_test = _file(root, _TEST + _IMAGES) is not None
    return Source(_table(root, _TRAIN), _table(root, _TEST) if has_test else None, None)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read one IDX file of unsigned bytes; memory is bounded by what its header promises.

    Raises
    ------
    UserError
        The file is no IDX file of bytes, or is cut short, or holds more than it says.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as stream:
            shape = _shape(path, stream.read(4), stream.read)
            size = math.prod(shape)
            data = stream.read(min(size, _most_bytes(path)) + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"The IDX file {path} cannot be read ({error}); fetch it again.") from error
    if len(data) != size:
        held = "more" if len(data) > size else "fewer"
        raise UserError(
            f"The IDX file {path} holds {held} bytes than its header says; fetch it again."
        )
    return np.frombuffer(data, np.uint8).reshape(shape)


def _most_bytes(path: Path) -> int:
    """Return what a file can hold at most, so that no header makes us ask for more memory."""
    return path.stat().st_size * (_GZIP_FACTOR if path.suffix == ".gz" else 1)


def _shape(path: Path, magic: bytes, read: Callable[[int], bytes]) -> tuple[int, ...]:
    if len(magic) < 4 or magic[:3] != bytes([0, 0, _UNSIGNED_BYTE]) or not 1 <= magic[3] <= 4:
        raise UserError(
            f"The file {path} is not an IDX file of bytes (it begins with "
            f"{magic.hex() or 'nothing'}); fetch it again."
        )
    header = read(4 * magic[3])
    if len(header) < 4 * magic[3]:
        raise UserError(f"The IDX file {path} ends within its header; fetch it again.")
    shape = tuple(int.from_bytes(header[i : i + 4], "big") for i in range(0, len(header), 4))
    if math.prod(shape) > _MAX_BYTES:
        raise UserError(
            f"The IDX file {path} claims {math.prod(shape):,} bytes; at most "
            f"{_MAX_BYTES:,} are read."
        )
    return shape


def _table(root: Path, part: str) -> Table:
    images, labels = _read(root, part + _IMAGES, 3), _read(root, part + _LABELS, 1)
    if len(images) != len(labels):
        raise UserError(
            f"The IDX files of {root} have {len(images)} {part} images but {len(labels)} labels; "
            "fetch them again."
        )

    def pick(rows: NDArray[np.int64]) -> Iterator[NamedImage]:
        return ((f"{row} of {root / (part + _IMAGES)}", images[row]) for row in rows)

    return Table(labels.astype(np.int64), pick)


def _read(root: Path, name: str, dimensions: int) -> NDArray[np.uint8]:
    path = _file(root, name)
    if path is None:
        raise UserError(f"The folder {root} has IDX files but no {name} (or {name}.gz); add it.")
    array = read_idx(path)
    if array.ndim != dimensions or array.size == 0:
        raise UserError(
            f"The IDX file {path} has the shape {array.shape}, not {dimensions} dimensions with "
            "something in them; fetch it again."
        )
    return array


def _file(root: Path, name: str) -> Path | None:
    return next((p for p in (root / name, root / f"{name}.gz") if p.is_file()), None)
