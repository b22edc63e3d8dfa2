"""Synthetic images on disk, addressed by everything that changes their pixels.

A *drawer* holds the images of one generator (its digest) and one client seed. Images are numbered
within their class, so that a larger budget adds images and never replaces any. A drawer is a set of
shards, one for each finished batch: whole files whose names carry their own checksum. A killed
generation resumes after its last shard, and two runs that make the same shard write the same bytes.
Two small files beside the shards say whose images they are and when they were last used; nothing
reads them but the inventory.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from math import prod
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fedeas_app import seeds
from fedeas_app.errors import UserError
from fedeas_app.files import cannot_write, sha256, stamp, sweep, write_bytes, write_text
from fedeas_app.generators.eviction import GB, LIVE, make_room
from fedeas_app.generators.protocol import Generator, Sampling
from fedeas_app.inventory.listing import children

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]
Place = tuple[int, int]  # label, and number within the label
OnProgress = Callable[[int], None]

ABOUT = "drawer.json"

_BYTES_OF_PLACE = 16  # label and index
_ATTEMPTS = 10


class Drawer:
    """The cached images of one generator for one client seed.

    Parameters
    ----------
    root : Path
        The cache directory.
    generator : Generator
        Its digest addresses the drawer; its weights are loaded only when something is missing.
    client_seed : int
        Different clients draw different images.
    machine : str
        What else changes pixels, if only in the last bit: device and library versions.
    limit_gb : float
        All drawers together hold at most so many gigabytes (of 10⁹ bytes): before images are made,
        drawers not used for a day are removed where need be. 0: no limit.
    """

    def __init__(
        self,
        root: Path,
        generator: Generator,
        client_seed: int,
        machine: str = "",
        limit_gb: float = 0.0,
    ) -> None:
        key = sha256(f"{generator.digest}/{client_seed}/{machine}".encode())
        self.directory = root / "synthetic" / key[:2] / key
        self._root = root
        self._limit = limit_gb * GB
        self._generator = generator
        self._client_seed = client_seed
        self._machine = machine

    def fetch(self, need: Labels, on_made: OnProgress | None = None) -> tuple[Images, Labels, int]:
        """Return the images asked for, making only those that are not there yet.

        Parameters
        ----------
        need : array of int, shape (C,)
            Images wanted of each class.
        on_made : callable, optional
            Called with the number of images after every batch made.

        Returns
        -------
        images : array of uint8, shape (n, height, width, channels)
            In order of class, then number.
        labels : array of int64, shape (n,)
        made : int
            How many had to be generated.

        Raises
        ------
        UserError
            The cache cannot be written or is too small, or the generator's images are not usable.
        """
        stamp(self.directory)
        wanted = [(label, index) for label, count in enumerate(need) for index in range(count)]
        images = np.empty((len(wanted), *self._generator.image_shape), np.uint8)
        labels = np.array([label for label, _ in wanted], np.int64)
        missing = self._read_into(images, {place: row for row, place in enumerate(wanted)})
        if missing:
            rows = np.array(sorted(missing.values()))
            images[rows] = self._make([wanted[row] for row in rows], on_made)
        return images, labels, len(missing)

    def look_up(self, places: Iterable[Place]) -> dict[Place, Images]:
        """Return those images that are there, by label and number; none is made."""
        wanted = set(places)
        found: dict[Place, Images] = {}
        for labels, indices, pixels in self._shards():
            held = zip(zip(labels.tolist(), indices.tolist(), strict=True), pixels, strict=True)
            found |= {place: image.copy() for place, image in held if place in wanted}
            if len(found) == len(wanted):
                break
        return found

    def _read_into(
        self, images: Images, rows: dict[tuple[int, int], int]
    ) -> dict[tuple[int, int], int]:
        """Fill in what the shards hold; return the places that none of them holds."""
        missing = dict(rows)
        for labels, indices, pixels in self._shards():
            for number, place in enumerate(zip(labels.tolist(), indices.tolist(), strict=True)):
                if missing.pop(place, None) is not None:
                    images[rows[place]] = pixels[number]
            if not missing:
                break
        return missing

    def _shards(self) -> Iterator[tuple[Labels, Labels, Images]]:
        for path in filter(is_shard, children(self.directory)):
            shard = self._read(path)
            if shard is not None:
                yield shard

    def _read(self, path: Path) -> tuple[Labels, Labels, Images] | None:
        """Read a shard; remove a damaged one, whose images are then made anew."""
        with suppress(OSError):  # another process removed it, or it cannot be read now
            shard = read_shard(path, self._generator.image_shape)
            if shard is None:
                path.unlink()
            return shard
        return None

    def _make(self, places: list[tuple[int, int]], on_made: OnProgress | None) -> Images:
        self._make_room(len(places))
        self._write(self._probe)
        sweep(self.directory, LIVE)
        labels = np.array([label for label, _ in places], np.int64)
        indices = np.array([index for _, index in places], np.int64)

        def keep(batch: slice, pixels: Images) -> None:
            self._keep(labels[batch], indices[batch], pixels)
            if on_made is not None:
                on_made(len(pixels))

        return self._generator.generate(labels, self._seeds(places), keep)

    def _make_room(self, count: int) -> None:
        image = prod(self._generator.image_shape) + _BYTES_OF_PLACE
        make_room(self._root, self._limit, count * image, self.directory)

    def _keep(self, labels: Labels, indices: Labels, images: Images) -> None:
        self._refuse_misshapen(len(labels), images)
        self._refuse_constant(images)
        self._make_room(len(images))  # other processes may have filled what was free
        self._write(lambda: write_shard(self.directory, labels, indices, images))

    def _write(self, write: Callable[[], object]) -> None:
        """Write something into the directory, also when others remove it at that moment."""
        try:
            for _ in range(_ATTEMPTS):
                with suppress(FileNotFoundError):
                    self._open()
                    write()
                    return
        except OSError as error:
            raise UserError(cannot_write(self.directory, error)) from error
        raise UserError(
            f"The directory {self.directory} vanishes whenever it is made; end what removes it, or "
            "name another cache-dir."
        )

    def _open(self) -> None:
        """Make the directory and say in it whose images these are, never of which labels."""
        self.directory.mkdir(parents=True, exist_ok=True)
        about = self.directory / ABOUT
        if not about.is_file():
            origin = {
                "generator": self._generator.name,
                "digest": self._generator.digest,
                "machine": self._machine,
            }
            write_text(about, json.dumps(origin, indent=2) + "\n")
        stamp(self.directory)

    def _probe(self) -> None:
        """Find out before any work whether the directory can be written."""
        with TemporaryFile(dir=self.directory):
            pass

    def _seeds(self, places: list[tuple[int, int]]) -> Labels:
        return np.array([seeds.derive("image", self._client_seed, *place) for place in places])

    def _refuse_misshapen(self, count: int, images: Images) -> None:
        wanted = (count, *self._generator.image_shape)
        if images.dtype != np.uint8 or images.shape != wanted:
            raise UserError(
                f"The generator {self._generator.name} made {images.dtype} of shape {images.shape} "
                f"where uint8 of shape {wanted} was wanted; use another generator."
            )

    def _refuse_constant(self, pixels: Images) -> None:
        flat = pixels.reshape(len(pixels), -1)
        constant = int((flat.min(axis=1) == flat.max(axis=1)).sum())
        if constant:
            how, advice = _how(self._generator)
            raise UserError(
                f"The generator {self._generator.name} made {constant} images of a single colour "
                f"in a batch of {len(pixels)}{how}; use {advice}."
            )


def _how(generator: Generator) -> tuple[str, str]:
    """Say how a generator draws, where it tells, and what else the user may try."""
    if isinstance(generator, Sampling):
        return f" ({generator.how})", "another sampler, more steps or another generator"
    return "", "another generator, or other images where it draws from a pool"


def write_shard(directory: Path, labels: Labels, indices: Labels, images: Images) -> Path:
    """Write one shard under a name made of its content's checksum."""
    arrays = {"labels": labels, "indices": indices, "images": images}
    # safetensors writes memory as it lies: a transposed view would come back scrambled.
    data = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    path = directory / f"{sha256(data)[:32]}.safetensors"
    write_bytes(path, data)
    return path


def is_shard(path: Path) -> bool:
    """Tell a shard from whatever else may lie in a drawer, by its name."""
    return re.fullmatch(r"[0-9a-f]{32}\.safetensors", path.name) is not None


def read_shard(
    path: Path, image_shape: tuple[int, int, int]
) -> tuple[Labels, Labels, Images] | None:
    """Read a shard, or return None when it is not what its name says.

    Raises
    ------
    OSError
        It is gone or cannot be read, which says nothing about its content.
    """
    data = path.read_bytes()
    if sha256(data)[:32] != path.stem:
        return None
    try:
        content = load(data)
        labels, indices, images = (content[name] for name in ("labels", "indices", "images"))
    except (SafetensorError, KeyError):
        return None
    whole = (
        images.dtype == np.uint8
        and images.shape[1:] == tuple(image_shape)
        and labels.dtype == indices.dtype == np.int64
        and labels.shape == indices.shape == images.shape[:1]
    )
    return (labels, indices, images) if whole else None
