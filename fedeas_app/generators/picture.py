"""A picture of what a network in training draws by now."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedeas_app.errors import UserError
from fedeas_app.files import cannot_write, make_directory
from fedeas_app.generators.grid import write_grid
from fedeas_app.generators.sampling import (
    DEFAULT_STEPS,
    Recipe,
    denoise,
    network_shape,
    to_pixels,
)

_SHOWN_CLASSES, _SHOWN_EACH = 10, 8


@torch.inference_mode()
def write_picture(unet: Any, scheduler: Any, classes: int, unshuffle: int, path: Path) -> None:
    """Write some images of the first classes as one PNG, whole or not at all.

    Parameters
    ----------
    unet : UNet2DModel
        On the device that is to draw.
    scheduler : DDPMScheduler
        That of the training.
    classes : int
        How many there are.
    unshuffle : int
        The network sees blocks of this many pixels a side as channels.
    path : Path

    Raises
    ------
    NotFiniteError
        The network gives no numbers any more.
    UserError
        The directory cannot be written.
    """
    labels = np.repeat(np.arange(min(classes, _SHOWN_CLASSES)), _SHOWN_EACH)
    sample = _draw(unet, scheduler, labels)
    make_directory(path.parent)
    try:
        write_grid(to_pixels(sample, unshuffle), labels, path, _SHOWN_EACH)
    except OSError as error:
        raise UserError(cannot_write(path.parent, error)) from error


def _draw(unet: Any, scheduler: Any, labels: NDArray[np.int64]) -> torch.Tensor:
    return denoise(
        unet,
        scheduler.config,
        Recipe("dpm-solver++", DEFAULT_STEPS["dpm-solver++"]),
        torch.from_numpy(labels).to(unet.device),
        np.arange(len(labels)),
        shape=network_shape(unet.config),
    )
