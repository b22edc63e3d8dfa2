"""Training a generator from the first step, or a checkpoint, to a directory.

While it trains, everything lies beside the target in ``TARGET.training``: the last checkpoint, a
picture of what the network draws by now, and the loss. The target appears whole or not at all.
"""

import json
import math
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from fedeas_app.data import Split
from fedeas_app.errors import UserError
from fedeas_app.files import cannot_write, create_directory, make_directory, write_bytes, write_text
from fedeas_app.generators.grid import write_grid
from fedeas_app.generators.sampling import (
    DEFAULT_STEPS,
    NotFiniteError,
    Recipe,
    denoise,
    network_shape,
    to_pixels,
)
from fedeas_app.generators.trainer import Trainer, Training, learning_rate, resolve_precision

_STATE = "state.safetensors"
_SHOWN_CLASSES, _SHOWN_EACH = 10, 8
_REPORT_EVERY = 10  # steps: reading the loss makes a GPU wait


@dataclass(frozen=True)
class Cadence:
    """How often to look up from work; it never changes the result.

    Attributes
    ----------
    checkpoint : int
        Steps between two checkpoints.
    samples : int
        Steps between two pictures of what the network draws.
    """

    checkpoint: int = 500
    samples: int = 1000


class Observer(Protocol):
    """Is told how training goes."""

    def __call__(self, step: int, loss: float, images_per_second: float) -> None:
        """Hear of the steps done, the mean loss of the last few, and how fast they were."""


def train(
    split: Split,
    training: Training,
    target: Path,
    *,
    cadence: Cadence = Cadence(),
    observe: Observer | None = None,
    resumed: Callable[[int], None] | None = None,
) -> Path:
    """Train a generator and save it in diffusers' layout with a card.

    Parameters
    ----------
    split : Split
        The images to learn; never the test set.
    training : Training
    target : Path
        A directory that does not exist yet. An interrupted training of the same target, data and
        options is continued.
    cadence : Cadence, optional
    observe : callable, optional
        Called every few steps, by the first process alone where several share the training; the
        loss is then that of its share.
    resumed : callable, optional
        Called with the number of steps that a checkpoint already holds.

    Returns
    -------
    Path
        ``target``.

    Raises
    ------
    UserError
        The preset does not fit the images, the target exists, another process is making it, or the
        checkpoint there is of another training.
    """
    require_new(target)
    trainer = Trainer(split, training)
    with _workshop(target, trainer.is_main) as place:
        checkpoint = Checkpoint(place, split, training)
        checkpoint.restore(trainer)
        if trainer.step and trainer.is_main and resumed is not None:
            resumed(trainer.step)
        _work(trainer, checkpoint, cadence, observe if trainer.is_main and observe else _silent)
        if trainer.is_main:
            _finish(trainer, split, place, target)
    trainer.leave()
    return target


def require_new(target: Path) -> None:
    """Refuse a directory that exists or cannot be made: now, and not after hours of training."""
    if target.exists():
        raise UserError(f"{target} exists already; name another directory or remove it.")
    make_directory(target.parent)


def workshop_of(target: Path) -> Path:
    """Return the directory that holds an unfinished training."""
    return target.with_name(f"{target.name}.training")


class Checkpoint:
    """The file that an interrupted training continues from, and of which training it is."""

    def __init__(self, place: Path, split: Split, training: Training) -> None:
        self.path = place / _STATE
        # The device may change from one start to the next: it does not decide what is learnt.
        own = asdict(training) | {"device": "any", "data": split.digest}
        self._identity = json.dumps(own, sort_keys=True)

    def save(self, trainer: Trainer) -> None:
        """Write the trainer's state, whole or not at all."""
        arrays, rest = trainer.state()
        data = save(arrays, {"training": self._identity, "rest": rest})
        try:
            write_bytes(self.path, data)
        except OSError as error:
            raise UserError(cannot_write(self.path.parent, error)) from error

    def restore(self, trainer: Trainer) -> None:
        """Bring a new trainer to where the checkpoint is, where there is one."""
        if not self.path.exists():
            return
        try:
            with safe_open(self.path, "pt") as stored:
                about = stored.metadata() or {}
                self._require_own(about.get("training"))
                arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - no mapping
                trainer.restore(arrays, about["rest"])
        except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
            raise UserError(
                f"The checkpoint {self.path} is damaged ({_first_line(error)}); remove "
                f"{self.path.parent} to begin anew."
            ) from error

    def _require_own(self, identity: str | None) -> None:
        if identity == self._identity:
            return
        raise UserError(
            f"{self.path.parent} holds an unfinished training with other options or data; repeat "
            "its command to continue it, name another target, or remove that directory."
        )


@contextmanager
def _workshop(target: Path, is_main: bool) -> Iterator[Path]:
    """Yield the directory of an unfinished training; one training at a time may have it."""
    place = workshop_of(target)
    make_directory(place)
    if not is_main:
        yield place
        return
    try:
        with FileLock(place / ".lock", timeout=0):
            yield place
    except Timeout:
        raise UserError(
            f"Another process is training {target} at this moment; wait for it, or name another "
            "target."
        ) from None
    if target.exists():
        shutil.rmtree(place, ignore_errors=True)


def _work(trainer: Trainer, checkpoint: Checkpoint, cadence: Cadence, observe: Observer) -> None:
    """Take the remaining steps, looking up from work at the agreed times."""
    steps, begin, done = trainer.training.steps, time.perf_counter(), 0
    losses: list[torch.Tensor] = []
    while trainer.step < steps:
        losses.append(_advance(trainer))
        done += 1
        last = trainer.step == steps
        if last or trainer.step % _REPORT_EVERY == 0:
            loss = _mean(losses, trainer.step)
            losses.clear()
            speed = done * trainer.images_per_step / (time.perf_counter() - begin)
            observe(trainer.step, loss, speed)
        if trainer.is_main and (last or trainer.step % cadence.samples == 0):
            _picture(trainer, checkpoint.path.parent)
        # The last one too: should the target not be writable, nothing is lost.
        if trainer.is_main and (last or trainer.step % cadence.checkpoint == 0):
            checkpoint.save(trainer)


def _advance(trainer: Trainer) -> torch.Tensor:
    try:
        return trainer.advance()
    except torch.OutOfMemoryError as error:
        raise UserError(
            f"A step of {trainer.images_per_step} images does not fit into the memory of the "
            "device; use a smaller --batch-size, a smaller --preset, or more --processes."
        ) from error


def _mean(losses: list[torch.Tensor], step: int) -> float:
    loss = float(torch.stack(losses).mean())
    if not math.isfinite(loss):
        raise _diverged(step)
    return loss


def _diverged(step: int) -> UserError:
    return UserError(
        f"The training diverged before step {step:,}: its loss is not finite; use a smaller "
        "--learning-rate, or --precision float32. The same options would continue from the last "
        "checkpoint."
    )


def _silent(step: int, loss: float, images_per_second: float) -> None:
    pass


@torch.inference_mode()
def _picture(trainer: Trainer, place: Path) -> None:
    """Write what the averaged network draws by now: some images of the first classes."""
    split, unshuffle = trainer.split, trainer.training.unshuffle
    labels = np.repeat(np.arange(min(len(split.class_names), _SHOWN_CLASSES)), _SHOWN_EACH)
    try:
        sample = _draw(trainer, labels)
    except NotFiniteError as error:
        raise _diverged(trainer.step) from error
    directory = make_directory(place / "samples")
    path = directory / f"step-{trainer.step:07}.png"
    try:
        write_grid(to_pixels(sample, unshuffle), labels, path, _SHOWN_EACH)
    except OSError as error:
        raise UserError(cannot_write(directory, error)) from error


def _draw(trainer: Trainer, labels: NDArray[np.int64]) -> torch.Tensor:
    unet = trainer.averaged().to(trainer.device)
    return denoise(
        unet,
        trainer.scheduler.config,
        Recipe("dpm-solver++", DEFAULT_STEPS["dpm-solver++"]),
        torch.from_numpy(labels).to(trainer.device),
        np.arange(len(labels)),
        shape=network_shape(unet.config),
    )


def _finish(trainer: Trainer, split: Split, place: Path, target: Path) -> None:
    """Put the averaged network, its card and the pictures where the user wants them."""

    def fill(directory: Path) -> None:
        trainer.averaged().save_pretrained(directory / "unet", safe_serialization=True)
        trainer.scheduler.save_pretrained(directory / "scheduler")
        if (place / "samples").is_dir():
            shutil.copytree(place / "samples", directory / "samples")
        write_text(directory / "card.json", json.dumps(_card(trainer, split), indent=2) + "\n")

    try:
        create_directory(target, fill)
    except (OSError, SafetensorError) as error:
        raise UserError(_cannot_save(target.parent, error)) from error


def _cannot_save(directory: Path, error: OSError | SafetensorError) -> str:
    """Say why; safetensors has an error of its own for a full disk."""
    if isinstance(error, OSError):
        return cannot_write(directory, error)
    return (
        f"The generator cannot be saved in {directory} ({_first_line(error)}); free some space "
        "there and repeat the command: the last checkpoint is whole."
    )


def _card(trainer: Trainer, split: Split) -> dict[str, Any]:
    """Say what the directory holds; what it needs beside diffusers' own files to draw is here."""
    training = trainer.training
    return {
        "kind": "class-conditional DDPM",
        "classes": list(split.class_names),
        "null-label": len(split.class_names) if training.label_dropout > 0 else None,
        "image-shape": list(split.image_shape),
        "pixel-unshuffle": training.unshuffle,
        "normalisation": "pixels / 127.5 - 1",
        "data-digest": split.digest,
        "images-seen": training.steps * trainer.images_per_step,
        "parameters": sum(parameter.numel() for parameter in trainer.unet.parameters()),
        "training": asdict(training)
        | {
            "device": trainer.device.type,
            "learning_rate": learning_rate(training),
            "precision": resolve_precision(training.precision, trainer.device),
        },
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "diffusers", "accelerate")},
        },
    }


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
