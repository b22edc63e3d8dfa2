"""The directory beside a generator that holds its training until that is finished.

It imports nothing heavy: the command that has simulated clients train lives as long as they do.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from fedeas_app.errors import UserError
from fedeas_app.files import make_directory

CHECKPOINT: Final = "state.safetensors"
"""What a training on pooled images keeps in it."""
RUN: Final = "run"
"""The directory of the run in which simulated clients train."""
GENERATOR: Final = "generator"
"""The directory of the generator in that of the run in which clients trained it."""

_KINDS: Final = {CHECKPOINT: "on pooled images", RUN: "with --federated"}


def workshop_of(target: Path) -> Path:
    """Return the directory that holds an unfinished training."""
    return target.with_name(f"{target.name}.training")


@contextmanager
def workshop(target: Path, kind: str) -> Iterator[Path]:
    """Yield the directory of an unfinished training; one training at a time may have it.

    Afterwards it is removed if the target is there.

    Parameters
    ----------
    target : Path
    kind : str
        `CHECKPOINT` or `RUN`: what the training keeps in it.

    Raises
    ------
    UserError
        Another process has it, a training of the other kind is in it, or it cannot be made.
    """
    place = make_directory(workshop_of(target))
    try:
        with FileLock(place / ".lock", timeout=0):
            _refuse_others(place, kind)
            yield place
    except Timeout:
        raise UserError(
            f"Another process is training {target} at this moment; wait for it, or name another "
            "target."
        ) from None
    if target.exists():
        shutil.rmtree(place, ignore_errors=True)


def _refuse_others(place: Path, kind: str) -> None:
    for other, words in _KINDS.items():
        if other != kind and (place / other).exists():
            raise UserError(
                f"{place} holds an unfinished training {words}; repeat its command to continue it, "
                "name another target, or remove that directory."
            )
