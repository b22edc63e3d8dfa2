"""Synthetic images on disk, addressed by everything that changes their pixels.

A *drawer* holds the images of one generator (its digest) and one client seed. Images are numbered
within their class, so that a larger budget adds images and never replaces any. A drawer is a set of
shards, one for each finished batch: whole files whose names carry their own checksum. A killed
generation resumes after its last shard, and two runs that make the same shard write the same bytes.
A small file beside the shards says whose images they are; nothing reads it but the inventory.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fedeas_app import seeds
from fedeas_app.errors import UserError
from fedeas_app.files import cannot_write, make_directory, sha256, write_bytes, write_text
from fedeas_app.generators.protocol import Generator

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]
OnProgress = Callable[[int], None]

ABOUT = "drawer.json"


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
    """

    def __init__(
        self, root: Path, generator: Generator, client_seed: int, machine: str = ""
    ) -> None:
        key = sha256(f"{generator.digest}/{client_seed}/{machine}".encode())
        self.directory = root / "synthetic" / key[:2] / key
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
            The cache cannot be written, or the generator's images are not usable.
        """
        wanted = [(label, index) for label, count in enumerate(need) for index in range(count)]
        images = np.empty((len(wanted), *self._generator.image_shape), np.uint8)
        labels = np.array([label for label, _ in wanted], np.int64)
        missing = self._read_into(images, {place: row for row, place in enumerate(wanted)})
        if missing:
            rows = np.array(sorted(missing.values()))
            images[rows] = self._make([wanted[row] for row in rows], on_made)
        return images, labels, len(missing)

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
        for path in sorted(self.directory.glob("*.safetensors")):
            shard = read_shard(path, self._generator.image_shape)
            if shard is None:
                with suppress(OSError):  # damaged: made anew below
                    path.unlink()
            else:
                yield shard

    def _make(self, places: list[tuple[int, int]], on_made: OnProgress | None) -> Images:
        self._open()
        labels = np.array([label for label, _ in places], np.int64)
        indices = np.array([index for _, index in places], np.int64)

        def keep(batch: slice, pixels: Images) -> None:
            self._refuse_constant(pixels)
            if not self.directory.is_dir():  # the cache was cleared meanwhile
                self._open()
            write_shard(self.directory, labels[batch], indices[batch], pixels)
            if on_made is not None:
                on_made(len(pixels))

        return self._generator.generate(labels, self._seeds(places), keep)

    def _open(self) -> None:
        """Make the directory and say in it whose images these are, never of which labels."""
        about = make_directory(self.directory) / ABOUT
        if about.is_file():
            return
        origin = {
            "generator": self._generator.name,
            "digest": self._generator.digest,
            "machine": self._machine,
        }
        try:
            write_text(about, json.dumps(origin, indent=2) + "\n")
        except OSError as error:
            raise UserError(cannot_write(self.directory, error)) from error

    def _seeds(self, places: list[tuple[int, int]]) -> Labels:
        return np.array([seeds.derive("image", self._client_seed, *place) for place in places])

    def _refuse_constant(self, pixels: Images) -> None:
        flat = pixels.reshape(len(pixels), -1)
        constant = int((flat.min(axis=1) == flat.max(axis=1)).sum())
        if constant:
            raise UserError(
                f"The generator {self._generator.name} made {constant} images of a single colour "
                f"in a batch of {len(pixels)}; use another sampler, more steps or another "
                "generator."
            )


def write_shard(directory: Path, labels: Labels, indices: Labels, images: Images) -> Path:
    """Write one shard under a name made of its content's checksum."""
    arrays = {"labels": labels, "indices": indices, "images": images}
    # safetensors writes memory as it lies: a transposed view would come back scrambled.
    data = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    path = directory / f"{sha256(data)[:32]}.safetensors"
    try:
        write_bytes(path, data)
    except OSError as error:
        raise UserError(cannot_write(directory, error)) from error
    return path


def read_shard(
    path: Path, image_shape: tuple[int, int, int]
) -> tuple[Labels, Labels, Images] | None:
    """Read a shard, or return None when it is not what its name says."""
    try:
        data = path.read_bytes()
        if sha256(data)[:32] != path.stem:
            return None
        content = load(data)
        labels, indices, images = (content[name] for name in ("labels", "indices", "images"))
    except (OSError, SafetensorError, KeyError):
        return None
    whole = images.shape == (len(labels), *image_shape) and indices.shape == labels.shape
    return (labels, indices, images) if whole else None
