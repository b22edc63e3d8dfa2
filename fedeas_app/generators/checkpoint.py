"""The file that an interrupted training continues from."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from fedeas_app.devices import resolve_precision
from fedeas_app.errors import UserError, first_line
from fedeas_app.files import cannot_write, make_directory, write_bytes
from fedeas_app.generators.trainer import Trainer
from fedeas_app.generators.workshop import CHECKPOINT
from fedeas_app.reading import parse_json

_DAMAGE = (OSError, SafetensorError, LookupError, ValueError, TypeError, OverflowError)


class Checkpoint:
    """The last state of a training, and of which training it is.

    Parameters
    ----------
    place : Path
        The directory of the unfinished training.
    trainer : Trainer
        Whose state is saved and restored.
    """

    def __init__(self, place: Path, trainer: Trainer) -> None:
        self.path = place / CHECKPOINT
        self._trainer = trainer
        self._own = _identity(trainer)

    def save(self) -> None:
        """Write the trainer's state, whole or not at all.

        Raises
        ------
        UserError
            A value of it is not finite, or it cannot be written.
        """
        arrays, rest = self._trainer.state()
        if not all(array.isfinite().all() for array in arrays.values()):
            raise diverged(self._trainer.step)
        data = save(arrays, {"training": json.dumps(self._own, sort_keys=True), "rest": rest})
        make_directory(self.path.parent)  # somebody may have removed it meanwhile
        try:
            write_bytes(self.path, data)
        except OSError as error:
            raise UserError(cannot_write(self.path.parent, error)) from error

    def restore(self) -> None:
        """Bring a new trainer to where the checkpoint is, where there is one.

        Raises
        ------
        UserError
            The checkpoint is damaged, or of another training.
        """
        if not self.path.exists():
            return
        try:
            with safe_open(self.path, "pt") as stored:
                about = stored.metadata() or {}
                self._require_own(_table(about.get("training", "{}")))
                arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - no mapping
                self._trainer.restore(arrays, about["rest"])
        except (*_DAMAGE, AttributeError, RuntimeError) as error:
            raise UserError(
                f"The checkpoint {self.path} is damaged ({first_line(error)}); remove "
                f"{self.path.parent} to begin anew."
            ) from error

    def _require_own(self, theirs: dict[str, Any]) -> None:
        if theirs == self._own:
            return
        differing = [name for name, value in self._own.items() if theirs.get(name) != value]
        raise UserError(
            f"{self.path.parent} holds an unfinished training with other options or data "
            f"({', '.join(differing)}); repeat its command to continue it, name another target, or "
            "remove that directory."
        )


def step_of(place: Path) -> int:
    """Return the steps that the checkpoint of an unfinished training holds; 0: there is none."""
    try:
        with safe_open(place / CHECKPOINT, "pt") as stored:
            return int(parse_json(stored.metadata()["rest"])["step"])
    except _DAMAGE:
        return 0


def _table(text: str) -> dict[str, Any]:
    content = parse_json(text)
    if not isinstance(content, dict):
        raise TypeError("it holds no table")
    return content


def diverged(step: int) -> UserError:
    """Return the error for a training that has gone astray."""
    return UserError(
        f"The training diverged before step {step:,}: its numbers are not finite; use a smaller "
        "--learning-rate, or --precision float32. The same options would continue from the last "
        "checkpoint."
    )


def _identity(trainer: Trainer) -> dict[str, Any]:
    """Return what decides the result; the device does not but for the precision it brings."""
    training = trainer.training
    return asdict(training) | {
        "device": "any",
        "precision": resolve_precision(training.precision, trainer.device),
        "data": trainer.split.digest,
    }
