"""The network that server and clients train together, the same from one seed."""

from typing import Any

from fedeas_app import seeds
from fedeas_app.generators.federated.options import num_labels
from fedeas_app.generators.network import make_unet
from fedeas_app.settings import Settings


def make_network(settings: Settings, image_shape: tuple[int, int, int], classes: int) -> Any:
    """Return the first network, with an embedding for each class and any null label.

    Parameters
    ----------
    settings : Settings
    image_shape : tuple of int
        (height, width, channels).
    classes : int

    Returns
    -------
    UNet2DModel

    Raises
    ------
    UserError
        The preset does not fit the images.
    """
    labels = num_labels(settings, classes)
    with seeds.global_torch_seed("generator", settings.seed):
        return make_unet(
            image_shape, labels, settings.generator_preset, settings.generator_unshuffle
        )
