"""The networks that training offers: their sizes, and what they see of an image.

Ho et al., "Denoising Diffusion Probabilistic Models", arXiv 2006.11239. The UNet is diffusers'.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from fedeas_app.errors import UserError

if TYPE_CHECKING:
    from diffusers import UNet2DModel


@dataclass(frozen=True)
class Preset:
    """The shape of a network: how much it costs and what it can draw."""

    block_out_channels: tuple[int, ...]
    layers_per_block: int
    attention_levels: tuple[int, ...]
    norm_num_groups: int
    learning_rate: float


PRESETS = {
    "tiny": Preset((32, 64), 1, (1,), 8, 2e-3),  # 8x8 pixels in CPU minutes, 14x14 in an hour
    "small": Preset((32, 64, 128), 2, (2,), 8, 1e-3),  # 28x28 pixels, CPU hours
    "cifar": Preset((128, 256, 256, 256), 2, (1,), 32, 2e-4),  # the network of the DDPM paper
}


def preset_of(name: str) -> Preset:
    """Return a preset by name.

    Raises
    ------
    UserError
        There is none of that name.
    """
    if name not in PRESETS:
        raise UserError(f"preset is {name!r}; {', '.join(PRESETS)} are allowed.")
    return PRESETS[name]


def make_unet(
    image_shape: tuple[int, int, int], num_labels: int, preset: str, unshuffle: int = 1
) -> "UNet2DModel":
    """Return an untrained UNet with one embedding for each label.

    Parameters
    ----------
    image_shape : tuple of int
        (height, width, channels).
    num_labels : int
        The classes, and one more where the network also learns to draw without a label.
    preset : str
        A key of :data:`PRESETS`.
    unshuffle : int
        The network sees blocks of this many pixels a side as channels; 1: the image as it is.

    Raises
    ------
    UserError
        The preset is unknown or does not fit the images.
    """
    from diffusers import UNet2DModel

    shape = preset_of(preset)
    levels = len(shape.block_out_channels)
    _require_divisible(image_shape, preset, unshuffle)
    height, width, channels = image_shape
    attends = [level in shape.attention_levels for level in range(levels)]
    return UNet2DModel(
        sample_size=(height // unshuffle, width // unshuffle),
        in_channels=channels * unshuffle**2,
        out_channels=channels * unshuffle**2,
        block_out_channels=shape.block_out_channels,
        layers_per_block=shape.layers_per_block,
        down_block_types=tuple("AttnDownBlock2D" if a else "DownBlock2D" for a in attends),
        up_block_types=tuple("AttnUpBlock2D" if a else "UpBlock2D" for a in reversed(attends)),
        norm_num_groups=shape.norm_num_groups,
        attention_head_dim=shape.block_out_channels[0],
        num_class_embeds=num_labels,
    )


def _require_divisible(image_shape: tuple[int, int, int], preset: str, unshuffle: int) -> None:
    height, width, _ = image_shape
    halvings = len(PRESETS[preset].block_out_channels) - 1
    multiple = unshuffle * 2**halvings
    if height % multiple or width % multiple:
        folded = f" after folding blocks of {unshuffle}x{unshuffle} pixels" if unshuffle > 1 else ""
        raise UserError(
            f"The preset {preset!r} halves images {halvings} times{folded}, which {width}x{height} "
            f"pixels do not allow; set image-size to a multiple of {multiple}, or use another "
            f"preset ({', '.join(PRESETS)}) or another --unshuffle."
        )


def fold(images: torch.Tensor, unshuffle: int) -> torch.Tensor:
    """Turn blocks of pixels into channels: (n, c, h, w) to (n, c·u², h/u, w/u)."""
    return functional.pixel_unshuffle(images, unshuffle)


def unfold(images: torch.Tensor, unshuffle: int) -> torch.Tensor:
    """Turn channels back into blocks of pixels, the inverse of :func:`fold`."""
    return functional.pixel_shuffle(images, unshuffle)
