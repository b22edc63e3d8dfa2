"""From a trained network to a generator's directory, in diffusers' layout with a card."""

import platform
import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from fedeas_app.errors import UserError, first_line
from fedeas_app.files import cannot_write, clear_away, create_directory, sync
from fedeas_app.generators.card import Card, write_card


def save_generator(
    target: Path,
    unet: Any,
    scheduler: Any,
    card: Card,
    history: Mapping[str, Any],
    samples: Path,
) -> Path:
    """Make the directory of a generator, whole or not at all.

    Parameters
    ----------
    target : Path
        A directory that does not exist yet.
    unet : UNet2DModel
    scheduler : DDPMScheduler
    card : Card
    history : mapping
        What the card tells a person: what was learnt, how, and with what.
    samples : Path
        A directory of pictures to go with it, if it exists.

    Raises
    ------
    UserError
        It cannot be written.
    """

    def fill(directory: Path) -> None:
        unet.save_pretrained(directory / "unet", safe_serialization=True)
        scheduler.save_pretrained(directory / "scheduler")
        if samples.is_dir():
            shutil.copytree(samples, directory / "samples")
        write_card(directory, card, history)
        sync(directory)  # what it was made from is removed afterwards

    try:
        clear_away(target)
        return create_directory(target, fill)
    except (OSError, SafetensorError) as error:
        raise UserError(_cannot_save(target.parent, error)) from error


def library_versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of the packages that made a generator."""
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def _cannot_save(directory: Path, error: OSError | SafetensorError) -> str:
    """Say why; safetensors has an error of its own for a full disk."""
    if isinstance(error, OSError):
        return cannot_write(directory, error)
    return (
        f"The generator cannot be saved in {directory} ({first_line(error)}); free some space "
        "there and repeat the command: the last checkpoint is whole."
    )
