"""Training a generator from the first step, or a checkpoint, to a directory.

While it trains, everything lies beside the target in ``TARGET.training``: the last checkpoint, a
picture of what the network draws by now, and the loss. The target appears whole or not at all.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from fedeas_app.data import Split
from fedeas_app.devices import resolve_precision
from fedeas_app.errors import UserError
from fedeas_app.files import make_directory, require_new
from fedeas_app.generators.card import Card, Origin
from fedeas_app.generators.checkpoint import Checkpoint, diverged
from fedeas_app.generators.interruption import noticing_ctrl_c
from fedeas_app.generators.picture import write_picture
from fedeas_app.generators.sampling import NotFiniteError
from fedeas_app.generators.saving import library_versions, save_generator
from fedeas_app.generators.trainer import Trainer, Training, learning_rate
from fedeas_app.generators.workshop import CHECKPOINT, workshop, workshop_of

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
    origin: Origin | None = None,
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
        A directory that does not exist yet. An unfinished training of it is continued.
    cadence : Cadence, optional
    origin : Origin, optional
        Where the images come from, for the card.
    observe, resumed : callable, optional
        The first process calls them: with the loss of its share, and with a checkpoint's step.

    Raises
    ------
    UserError
        It does not fit, diverges or cannot be written, or the target is another's.
    KeyboardInterrupt
        Ctrl-C was pressed; the checkpoint holds the steps until then.
    """
    target = require_new(target)
    trainer = Trainer(split, training)
    with _workshop(target, trainer) as place:
        _train_in(place, trainer, cadence, observe, resumed)
        if trainer.is_main:
            _finish(trainer, origin or Origin(), place, target)
    trainer.leave()
    return target


def _workshop(target: Path, trainer: Trainer) -> AbstractContextManager[Path]:
    """Return what holds the directory of an unfinished training, for the first process."""
    if trainer.is_main:
        return workshop(target, CHECKPOINT)
    return nullcontext(make_directory(workshop_of(target)))


def _train_in(
    place: Path,
    trainer: Trainer,
    cadence: Cadence,
    observe: Observer | None,
    resumed: Callable[[int], None] | None,
) -> None:
    """Continue from the checkpoint in a directory, where there is one, to the last step."""
    checkpoint = Checkpoint(place, trainer)
    checkpoint.restore()
    if trainer.step and trainer.is_main and resumed is not None:
        resumed(trainer.step)
    _work(trainer, checkpoint, cadence, observe if trainer.is_main and observe else _silent)


def _work(trainer: Trainer, checkpoint: Checkpoint, cadence: Cadence, observe: Observer) -> None:
    """Take the remaining steps, looking up from work at the agreed times and at Ctrl-C."""
    steps, report = trainer.training.steps, _Report(trainer, observe)
    with noticing_ctrl_c() as interrupted:
        while trainer.step < steps:
            report.add(_advance(trainer))
            last = trainer.step == steps
            if last or trainer.step % _REPORT_EVERY == 0:
                report.tell()
            if trainer.is_main and (last or trainer.step % cadence.samples == 0):
                _picture(trainer, checkpoint.path.parent)
            stop = interrupted.is_set()
            # The last one too: should the target not be writable, nothing is lost.
            if trainer.is_main and (last or stop or trainer.step % cadence.checkpoint == 0):
                report.require_finite()
                checkpoint.save()
            if stop:
                raise KeyboardInterrupt


class _Report:
    """The losses that nobody has looked at yet, and how fast the steps were."""

    def __init__(self, trainer: Trainer, observe: Observer) -> None:
        self._trainer = trainer
        self._observe = observe
        self._losses: list[torch.Tensor] = []
        self._first, self._begin = trainer.step, time.perf_counter()

    def add(self, loss: torch.Tensor) -> None:
        """Keep the loss of a step, still on the device."""
        self._losses.append(loss)

    def tell(self) -> None:
        """Tell the observer the mean of these losses, and forget them."""
        self.require_finite()
        loss = float(torch.stack(self._losses).mean())
        self._losses.clear()
        images = (self._trainer.step - self._first) * self._trainer.images_per_step
        self._observe(self._trainer.step, loss, images / (time.perf_counter() - self._begin))

    def require_finite(self) -> None:
        """Refuse to go on, or to save anything, after a loss that is none."""
        if self._losses and not torch.stack(self._losses).isfinite().all():
            raise diverged(self._trainer.step)


def _advance(trainer: Trainer) -> torch.Tensor:
    try:
        return trainer.advance()
    except torch.OutOfMemoryError as error:
        raise UserError(
            f"A step of {trainer.images_per_step} images does not fit into the memory of the "
            "device; use a smaller --batch-size, a smaller --preset, or more --processes."
        ) from error


def _silent(step: int, loss: float, images_per_second: float) -> None:
    pass


def _picture(trainer: Trainer, place: Path) -> None:
    """Write what the averaged network draws by now: some images of the first classes."""
    unet, classes = trainer.averaged().to(trainer.device), len(trainer.split.class_names)
    path = place / "samples" / f"step-{trainer.step:07}.png"
    try:
        write_picture(unet, trainer.scheduler, classes, trainer.training.unshuffle, path)
    except NotFiniteError as error:
        raise diverged(trainer.step) from error


def _finish(trainer: Trainer, origin: Origin, place: Path, target: Path) -> None:
    """Put the averaged network, its card and the pictures where the user wants them."""
    unet, history = trainer.averaged(), _history(trainer, origin)
    save_generator(target, unet, trainer.scheduler, _card(trainer), history, place / "samples")


def _card(trainer: Trainer) -> Card:
    names, training = trainer.split.class_names, trainer.training
    return Card(names, len(names) if training.label_dropout > 0 else None, training.unshuffle)


def _history(trainer: Trainer, origin: Origin) -> dict[str, Any]:
    """Return what the card tells a person: what was learnt, how, and with what."""
    split, training = trainer.split, trainer.training
    return {
        "image-shape": list(split.image_shape),
        "normalisation": "pixels / 127.5 - 1",
        "data": asdict(origin) | {"split": "train", "images": len(split.labels)},
        "data-digest": split.digest,
        "images-seen": training.steps * trainer.images_per_step,
        "parameters": sum(parameter.numel() for parameter in trainer.unet.parameters()),
        "training": asdict(training)
        | {
            "device": trainer.device.type,
            "learning_rate": learning_rate(training),
            "precision": resolve_precision(training.precision, trainer.device),
        },
        "versions": library_versions("torch", "diffusers", "accelerate"),
    }
