"""From the run's configuration to that of the generator's rounds."""

import math
from typing import Final

from fedeas_app import seeds
from fedeas_app.generators.network import preset_of, require_divisible
from fedeas_app.settings import OWN, Settings, Value

# Of the keys that begin with "generator-", those that do not decide what it learns.
_OTHER: Final = frozenset(
    {
        "generator-only", "generator-prompt", "generator-classes", "generator-digest",
        "generator-revision", "generator-samples-every", "generator-checked",
        "generator-max-copies",
    }
)  # fmt: skip
_SERVER_STEP: Final = ("server-learning-rate", "server-momentum", "server-decay", "server-tau")
_DIVISION: Final = (
    "partitioner", "alpha", "classes-per-client", "min-partition-size", "noisy-fraction",
    "noise-rate", "rare-fraction", "rare-cap",
)  # fmt: skip


def decisive(settings: Settings) -> dict[str, Value]:
    """Return the keys that decide what the clients' generator learns, but for privacy's."""
    flat = settings.to_flat()
    keys = [key for key in flat if key.startswith("generator-") and key not in _OTHER]
    keys += ["max-client-weight", "min-replies"]
    keys += _SERVER_STEP if for_rounds(settings).steps_at_server else ()
    keys += _DIVISION if settings.dataset != OWN else ()
    return {key: flat[key] for key in keys}


def for_rounds(settings: Settings) -> Settings:
    """Return the settings under which a strategy averages generators.

    They have a seed of their own, so that cohorts do not repeat in the rounds of the classifier.
    """
    changes = {
        "seed": seeds.derive("generator-rounds", settings.seed),
        "rounds": settings.generator_rounds,
        "fraction-train": settings.generator_fraction,
        "strategy": settings.generator_strategy,
        "proximal-mu": "auto",  # the generator's own is `generator-mu`
        "clip-norm": settings.generator_clip_norm,
        "weight-by": "real",
        "policy": "none",
        "compression": "none",  # the generator's own is `generator-transfer`
    }
    return Settings.parse(settings.to_flat() | changes)


def require_trainable(settings: Settings, image_shape: tuple[int, int, int]) -> None:
    """Refuse a network that does not fit the images: now, and not at every client.

    Raises
    ------
    UserError
    """
    require_divisible(image_shape, settings.generator_preset, settings.generator_unshuffle)


def num_labels(settings: Settings, classes: int) -> int:
    """Return the labels of the network: the classes, and the null label where it has one."""
    return classes + (settings.generator_label_dropout > 0)


def step_size(settings: Settings, server_round: int) -> float:
    """Return the step size of a round from 1: a cosine that would be 0 in the round after the last.

    Within a round it stays the same.
    """
    largest = settings.generator_learning_rate or preset_of(settings.generator_preset).learning_rate
    done = (server_round - 1) / settings.generator_rounds
    return largest * (1 + math.cos(math.pi * done)) / 2
