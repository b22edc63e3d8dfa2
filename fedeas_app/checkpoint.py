"""Where a run goes on after an interruption: all that its server knows, in one file.

Random numbers are no part of it: all of them are drawn from the seed, a purpose and the round.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from fedeas_app.errors import UserError, first_line
from fedeas_app.files import told, write_bytes
from fedeas_app.reading import parse_json
from fedeas_app.runs.resuming import CHECKPOINT
from fedeas_app.settings import Settings
from fedeas_app.strategies.state import StrategyState

_MODEL, _STRATEGY = "model", "strategy"
_VALUES: Final = "fedeas"
_SUM: Final = "sha256"
_DAMAGE: Final = (
    OSError, SafetensorError, ValueError, LookupError, TypeError, AttributeError, OverflowError,
)  # fmt: skip


@dataclass(frozen=True)
class Checkpoint:
    """A run after one of its rounds.

    Attributes
    ----------
    server_round : int
        The last round that is finished.
    arrays : ArrayRecord
        The global model.
    state : StrategyState
        What the strategy knows beside it.
    """

    server_round: int
    arrays: ArrayRecord
    state: StrategyState

    def save(self, directory: Path) -> None:
        """Take the place of the last checkpoint in a run's directory, all at once.

        Raises
        ------
        UserError
            It cannot be written; the last one stays.
        """
        parts = {_MODEL: self.arrays, _STRATEGY: self.state.arrays}
        tensors = {
            f"{part}/{name}": array.numpy()
            for part, arrays in parts.items()
            for name, array in arrays.items()
        }
        values = json.dumps(
            {
                "round": self.server_round,
                "names": {part: list(arrays) for part, arrays in parts.items()},  # in their order
                "values": self.state.values,
            }
        )
        about = {_VALUES: values, _SUM: _checksum(values, tensors)}
        with told(directory):
            write_bytes(directory / CHECKPOINT, save(tensors, about))


def is_due(server_round: int, settings: Settings) -> bool:
    """Tell whether a checkpoint is to be made after a round."""
    return settings.checkpoint_every > 0 and server_round % settings.checkpoint_every == 0


def load_checkpoint(directory: Path) -> Checkpoint | None:
    """Return the last checkpoint of a run; None where it had not come to one.

    Raises
    ------
    UserError
        The file is damaged.
    """
    path = directory / CHECKPOINT
    if not path.exists():
        return None
    try:
        return _read(path)
    except _DAMAGE as error:
        raise _unreadable(path, error) from error


@contextmanager
def restoring(directory: Path) -> Iterator[None]:
    """Say in one sentence that a checkpoint does not hold what is looked for in it.

    Raises
    ------
    UserError
    """
    try:
        yield
    except _DAMAGE as error:
        raise _unreadable(directory / CHECKPOINT, error) from error


def _unreadable(path: Path, error: Exception) -> UserError:
    return UserError(
        f"The checkpoint {path} cannot be read ({first_line(error)}); remove it to begin the run "
        "again from its first round."
    )


def _read(path: Path) -> Checkpoint:
    with safe_open(path, "numpy") as file:
        about = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    if _checksum(about[_VALUES], tensors) != about.get(_SUM):
        raise ValueError("it is not what was written")
    values = parse_json(about[_VALUES])
    parts = {
        part: ArrayRecord({n: Array(tensors[f"{part}/{n}"]) for n in names})
        for part, names in _lists(values["names"]).items()
    }
    server_round = values["round"]
    if type(server_round) is not int or server_round < 1:
        raise ValueError(f"round is {server_round!r}")
    if not isinstance(values["values"], dict):
        raise TypeError("values is no table")
    state = StrategyState(parts[_STRATEGY], values["values"])
    return Checkpoint(server_round, parts[_MODEL], state)


def _checksum(values: str, tensors: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 over all that a checkpoint holds: a changed bit would change the run."""
    state = hashlib.sha256(values.encode())
    for name, tensor in sorted(tensors.items()):
        state.update(f"{name} {tensor.dtype} {tensor.shape}".encode())
        state.update(np.ascontiguousarray(tensor).data)
    return state.hexdigest()


def _lists(names: Any) -> Mapping[str, list[str]]:
    if not isinstance(names, dict) or not all(isinstance(part, list) for part in names.values()):
        raise TypeError("names is no table of lists")
    return names
