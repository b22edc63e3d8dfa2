"""Training that diverged, told where it happened and with what helps."""

from collections.abc import Iterable

import torch

from fedeas_app.errors import PublicError
from fedeas_app.settings import Settings


def require_finite(values: Iterable[torch.Tensor], settings: Settings) -> None:
    """Refuse what has come of local training if it is not finite.

    Parameters
    ----------
    values : iterable of tensor
        The loss, the weights, or what they make of images.
    settings : Settings

    Raises
    ------
    PublicError
        Names the key to change; it says nothing of a single client, so that a round names it once.
    """
    if not all(bool(value.isfinite().all()) for value in values):
        raise PublicError(
            f"Training diverged: the model is not finite any more; lower learning-rate, which is "
            f"{settings.learning_rate:g}."
        )
