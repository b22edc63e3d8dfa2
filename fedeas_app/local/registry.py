"""From the key ``strategy`` to what a client does."""

from collections.abc import Callable

import torch

from fedeas_app.local.divergence import require_finite
from fedeas_app.local.fedprox import train_fedprox
from fedeas_app.local.job import Job, Outcome
from fedeas_app.local.moon import train_moon
from fedeas_app.local.scaffold import train_scaffold

_OF_STRATEGY: dict[str, Callable[[Job], Outcome]] = {
    "scaffold": train_scaffold,
    "moon": train_moon,
}


def train_locally(job: Job) -> Outcome:
    """Train with the local algorithm of the strategy; SGD, with FedProx's term where μ > 0.

    Raises
    ------
    PublicError
        Training diverged.
    """
    outcome = _OF_STRATEGY.get(job.settings.strategy, train_fedprox)(job)
    require_finite([torch.tensor(outcome.loss), *job.model.state_dict().values()], job.settings)
    return outcome
