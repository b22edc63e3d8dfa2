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
        Names the keys to change; it says nothing of a single client, so that a round names it once.
    """
    if not all(bool(value.isfinite().all()) for value in values):
        raise PublicError(
            f"Training diverged: the model is not finite any more; lower learning-rate, which is "
            f"{settings.learning_rate:g}{or_server_step(settings)}."
        )


def or_server_step(settings: Settings) -> str:
    """Return the words that name the server's step, too, where it takes one; else none.

    A client cannot tell whether its own steps were too large or those that led to its round.
    """
    if not settings.steps_at_server:
        return ""
    return f", or server-learning-rate, which is {settings.server_step:g}"
