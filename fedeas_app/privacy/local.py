"""Local differential privacy: a client clips its update and adds noise before it sends it.

Flower's `LocalDpMod` does not serve: it takes ε for what it calls sensitivity by a formula that
holds for ε < 1 alone, and adds noise to buffers and counters, too.
"""

import math
from collections.abc import Collection

import numpy as np
from flwr.app import Array, ArrayRecord

from fedeas_app.clipping import factor
from fedeas_app.privacy.noise import Normal, with_noise
from fedeas_app.settings import Settings


def released(
    trained: ArrayRecord,
    sent: ArrayRecord,
    names: Collection[str],
    settings: Settings,
    normal: Normal,
) -> ArrayRecord:
    """Return what leaves the client: its model or, with ``privacy = "local"``, a private one.

    w_t + min(1, C/‖Δ‖)·Δ + N(0, (z·C)²), with C the ``clip-norm`` and z the ``noise-multiplier``.

    Parameters
    ----------
    trained, sent : ArrayRecord
        w, and w_t as the server sent it.
    names : collection of str
        The trainable parameters.
    settings : Settings
    normal : callable
        Where noise comes from.
    """
    if settings.privacy != "local":
        return trained
    w_t = {name: sent[name].numpy().astype(np.float64) for name in names}
    deltas = {name: trained[name].numpy() - w_t[name] for name in names}
    norm = math.sqrt(sum(float((delta * delta).sum()) for delta in deltas.values()))
    scale = factor(norm, settings.norm_bound)
    clipped = ArrayRecord({name: Array(w_t[name] + scale * deltas[name]) for name in names})
    noisy = with_noise(clipped, names, settings.noise_deviation, normal)
    return ArrayRecord(
        {
            name: Array(noisy[name].numpy().astype(array.dtype)) if name in noisy else array
            for name, array in trained.items()
        }
    )
