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
    """The shape of a network: how much it costs and what it can draw.

    Attributes
    ----------
    block_out_channels : tuple of int
        Of each level, from the whole image to the smallest.
    layers_per_block : int
    attention_levels : tuple of int
        Levels at which pixels look at each other.
    norm_num_groups : int
    learning_rate : float
    head_channels : int, optional
        Of each attention head; None has one head for all channels, as in the DDPM paper.
    """

    block_out_channels: tuple[int, ...]
    layers_per_block: int
    attention_levels: tuple[int, ...]
    norm_num_groups: int
    learning_rate: float
    head_channels: int | None = None

    @property
    def down_blocks(self) -> tuple[str, ...]:
        """What diffusers calls the block of each level, on the way to the smallest."""
        attends = (level in self.attention_levels for level in range(len(self.block_out_channels)))
        return tuple("AttnDownBlock2D" if a else "DownBlock2D" for a in attends)

    @property
    def up_blocks(self) -> tuple[str, ...]:
        """The same on the way back."""
        return tuple(block.replace("Down", "Up") for block in reversed(self.down_blocks))


PRESETS = {
    "tiny": Preset((32, 64), 1, (1,), 8, 2e-3, 32),  # 8x8 pixels in CPU minutes, 14x14 in an hour
    "small": Preset((32, 64, 128), 2, (2,), 8, 1e-3, 32),  # 28x28 pixels, CPU hours
    # Ho et al., appendix B, without dropout.
    "cifar": Preset((128, 256, 256, 256), 2, (1,), 32, 2e-4),
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
    require_divisible(image_shape, preset, unshuffle)
    height, width, channels = image_shape
    return UNet2DModel(
        sample_size=(height // unshuffle, width // unshuffle),
        in_channels=channels * unshuffle**2,
        out_channels=channels * unshuffle**2,
        block_out_channels=shape.block_out_channels,
        layers_per_block=shape.layers_per_block,
        down_block_types=shape.down_blocks,
        up_block_types=shape.up_blocks,
        norm_num_groups=shape.norm_num_groups,
        attention_head_dim=shape.head_channels,
        num_class_embeds=num_labels,
    )


def require_divisible(image_shape: tuple[int, int, int], preset: str, unshuffle: int) -> None:
    """Refuse images that a preset cannot halve as often as it has to.

    Raises
    ------
    UserError
    """
    height, width, _ = image_shape
    halvings = len(PRESETS[preset].block_out_channels) - 1
    multiple = unshuffle * 2**halvings
    if height % multiple or width % multiple:
        folded = f" after folding blocks of {unshuffle}x{unshuffle} pixels" if unshuffle > 1 else ""
        raise UserError(
            f"The preset {preset!r} halves images {halvings} times{folded}, which {width}x{height} "
            f"pixels do not allow; set image-size to a multiple of {multiple}, use another preset "
            f"({', '.join(PRESETS)}), or fold other blocks (--unshuffle, generator-unshuffle)."
        )


def fold(images: torch.Tensor, unshuffle: int) -> torch.Tensor:
    """Turn blocks of pixels into channels: (n, c, h, w) to (n, c·u², h/u, w/u)."""
    return functional.pixel_unshuffle(images, unshuffle)


def unfold(images: torch.Tensor, unshuffle: int) -> torch.Tensor:
    """Turn channels back into blocks of pixels, the inverse of :func:`fold`."""
    return functional.pixel_shuffle(images, unshuffle)
