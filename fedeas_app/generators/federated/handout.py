"""How a generator that was just trained gets to the clients: its files, byte for byte.

Its digest covers the file of the weights, so that everybody has to have the same bytes.
"""

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from flwr.app import Array, ArrayRecord

from fedeas_app.arrays import decode
from fedeas_app.errors import PublicError, UserError
from fedeas_app.generators.pretrained import require_whole, seal
from fedeas_app.generators.registry import at_float32, federated_directory, open_generator
from fedeas_app.settings import FEDERATED, Settings
from fedeas_app.store import load_or_build

FILES: Final = (
    "unet/config.json",
    "unet/diffusion_pytorch_model.safetensors",
    "scheduler/scheduler_config.json",
    "card.json",
)


@dataclass(frozen=True)
class Handout:
    """A generator on its way to the clients; an empty one where they have theirs.

    Attributes
    ----------
    digest : str
    files : ArrayRecord
        The bytes of each file, as arrays of uint8.
    """

    digest: str = ""
    files: ArrayRecord = field(default_factory=ArrayRecord)


def pack(directory: Path, settings: Settings) -> Handout:
    """Read a generator's directory, and keep it in this machine's cache too.

    Raises
    ------
    UserError
        It is no generator or not the one wanted, or the cache cannot be written.
    """
    digest = open_generator(at_float32(_plain(settings, directory))).digest
    if settings.generator_digest not in ("", digest):
        option = shlex.quote(f"generator={directory}")
        raise UserError(
            f"generator-digest is {settings.generator_digest}, but the generator that the clients "
            f"have trained is {digest}; use it as any other, with --set {option}, or start a new "
            "run without generator-digest."
        )
    contents = {name: (directory / name).read_bytes() for name in FILES}
    files = {name: Array(np.frombuffer(data, np.uint8)) for name, data in contents.items()}
    keep(ArrayRecord(files), told(settings, digest))
    return Handout(digest, ArrayRecord(files))


def _plain(settings: Settings, directory: Path) -> Settings:
    """Return settings that open a directory like any other generator: nothing is trained there."""
    plain = {"generator": str(directory), "generator-digest": "", "generator-only": False}
    return Settings.parse(settings.to_flat() | plain | {"privacy": "none"})


def told(settings: Settings, digest: str) -> Settings:
    """Return settings that find a generator of the clients' own training in the cache."""
    if settings.generator != FEDERATED:
        return settings
    return Settings.parse(settings.to_flat() | {"generator-digest": digest})


def keep(files: ArrayRecord, settings: Settings) -> Path:
    """Put a generator into the cache, where it is not there yet, and check that it is the one.

    Parameters
    ----------
    files : ArrayRecord
        As in `Handout`.
    settings : Settings
        With its digest.

    Raises
    ------
    UserError
        The files are not those of that generator, or the cache cannot be written.
    """
    if set(files) != set(FILES):
        raise _unusable("its files are not those of a generator")
    contents = {name: _bytes(name, files[name]) for name in FILES}
    directory = federated_directory(settings)
    load_or_build(directory, require_whole, lambda target: _fill(target, contents))
    found = open_generator(at_float32(settings)).digest
    if found != settings.generator_digest:
        raise _unusable(f"its digest is {found}, not {settings.generator_digest}")
    return directory


def _bytes(name: str, array: Array) -> bytes:
    with suppress(ValueError):
        data = decode(array)
        if data.dtype == np.uint8 and data.ndim == 1:
            return data.tobytes()
    raise _unusable(f"{name} does not hold bytes")


def _fill(target: Path, contents: Mapping[str, bytes]) -> None:
    for name, data in contents.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    seal(target, FILES)


def _unusable(reason: str) -> UserError:
    return PublicError(
        f"The generator that the server sent cannot be used: {reason}; run the same version of the "
        "app on every node."
    )
