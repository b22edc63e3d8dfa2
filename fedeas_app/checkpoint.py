"""Where a run goes on after an interruption: all that its server knows, in one file.

Random numbers are no part of it: all of them are drawn from the seed, a purpose and the round.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flwr.app import Array, ArrayRecord
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from fedeas_app.errors import UserError, first_line
from fedeas_app.files import write_bytes
from fedeas_app.runs.resuming import CHECKPOINT
from fedeas_app.settings import Settings
from fedeas_app.strategies.state import StrategyState

_MODEL, _STRATEGY = "model", "strategy"
_VALUES: Final = "fedeas"


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
        """Take the place of the last checkpoint in a run's directory, all at once."""
        parts = {_MODEL: self.arrays, _STRATEGY: self.state.arrays}
        tensors = {
            f"{part}/{name}": array.numpy()
            for part, arrays in parts.items()
            for name, array in arrays.items()
        }
        values = {
            "round": self.server_round,
            "names": {part: list(arrays) for part, arrays in parts.items()},  # in their order
            "values": self.state.values,
        }
        write_bytes(directory / CHECKPOINT, save(tensors, {_VALUES: json.dumps(values)}))


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
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"The checkpoint {path} cannot be read ({first_line(error)}); remove it to begin the "
            "run again from its first round."
        ) from error


def _read(path: Path) -> Checkpoint:
    with safe_open(path, "numpy") as file:
        values = json.loads(file.metadata()[_VALUES])
        parts = {
            part: ArrayRecord({n: Array(file.get_tensor(f"{part}/{n}")) for n in names})
            for part, names in _lists(values["names"]).items()
        }
    server_round = values["round"]
    if type(server_round) is not int or server_round < 1:
        raise ValueError(f"round is {server_round!r}")
    if not isinstance(values["values"], dict):
        raise TypeError("values is no table")
    state = StrategyState(parts[_STRATEGY], values["values"])
    return Checkpoint(server_round, parts[_MODEL], state)


def _lists(names: Any) -> Mapping[str, list[str]]:
    if not isinstance(names, dict) or not all(isinstance(part, list) for part in names.values()):
        raise TypeError("names is no table of lists")
    return names
