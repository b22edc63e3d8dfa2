"""What a client keeps from one of its rounds for the next: SCAFFOLD's c_k, MOON's last model.

A file, not Flower's ``context.state``: that one is pickled or sent both ways with every message, in
simulation fills the server's memory with all clients' states, and cannot be taken up by a later
process of the same run.

A state of another run, or of a round that did not count, can never be met. Its path holds a random
key that the server drew for the run, and the round: the server tells each client which of its
rounds it last accepted, and that one alone is read. What is not there is lost, and the reply says
so.
"""

import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from fedeas_app.errors import UserError
from fedeas_app.files import make_directory, told, write_bytes

_EXPIRES = 30 * 86_400.0  # seconds after which a run that left its states behind is over


class Address(NamedTuple):
    """Where a client's state is, as the server tells it.

    Attributes
    ----------
    key : str
        The run's own, 32 hexadecimal digits.
    accepted : int
        The last round in which this client's reply counted; 0: none yet.
    checkpointed : int
        The same when the server last wrote a checkpoint, from which an interrupted run goes on.
    """

    key: str
    accepted: int
    checkpointed: int = 0


@dataclass(frozen=True)
class ClientState:
    """The states of one client in one run.

    Parameters
    ----------
    cache : Path
        The client's cache directory.
    address : Address or None
        None where the strategy has clients keep nothing.
    partition : int
    """

    cache: Path
    address: Address | None
    partition: int

    def load(self, device: torch.device) -> dict[str, torch.Tensor]:
        """Return the state of the last round that counted; empty if none is there."""
        if self.address is None:
            return {}
        try:
            return dict(load_file(self._path(self.address, self.address.accepted), str(device)))
        except (OSError, SafetensorError):
            return {}

    def lost(self, kept: Mapping[str, torch.Tensor]) -> bool | None:
        """Tell whether there should have been more than was loaded; None where nothing is kept."""
        return None if self.address is None else self.address.accepted > 0 and not kept

    def save(self, server_round: int, tensors: Mapping[str, torch.Tensor]) -> None:
        """Keep the state of this round beside those that may still be asked for.

        These are the last one that counted, until this one counts too, and that of the server's
        checkpoint.

        Raises
        ------
        UserError
            The cache cannot be written.
        """
        if self.address is None:
            return
        path = self._path(self.address, server_round)
        if not path.parent.is_dir():
            make_directory(path.parent)
            _remove_expired(path.parent)
        with told(path.parent):
            write_bytes(path, save({name: t.cpu().contiguous() for name, t in tensors.items()}))
        wanted = {server_round, self.address.accepted, self.address.checkpointed}
        kept = {self._path(self.address, each) for each in wanted}
        for other in path.parent.glob(f"{self.partition}-*.safetensors"):
            if other not in kept:
                other.unlink(missing_ok=True)

    def _path(self, address: Address, server_round: int) -> Path:
        if not re.fullmatch("[0-9a-f]{32}", address.key):
            raise UserError(
                f"The server's key of this run is {address.key!r}, not 32 hexadecimal digits; run "
                "the same version of the app on every node."
            )
        name = f"{self.partition}-{server_round}.safetensors"
        return _root(self.cache) / address.key / name


def forget(cache: Path, key: str) -> None:
    """Remove the states of a run that is over, where they are on this machine."""
    shutil.rmtree(_root(cache) / key, ignore_errors=True)


def _root(cache: Path) -> Path:
    return cache / "client-states"


def _remove_expired(own: Path) -> None:
    """Remove what runs left behind whose server could not, beside a directory just made.

    Its time is the disk's, as theirs are; this machine's clock may be another.
    """
    now = own.stat().st_mtime
    for directory in own.parent.iterdir():
        with suppress(OSError):  # removed by somebody else meanwhile
            if directory != own and now - directory.stat().st_mtime > _EXPIRES:
                shutil.rmtree(directory, ignore_errors=True)
