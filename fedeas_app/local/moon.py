"""MOON's local training: model-contrastive learning (Li et al., arXiv 2103.16257).

    ℓ = ℓ_CE + μ·ℓ_con
    ℓ_con = −log( e^{sim(z, z_glob)/τ} / (e^{sim(z, z_glob)/τ} + e^{sim(z, z_prev)/τ}) )

z is the representation by the model in training, z_glob by the global model, z_prev by this
client's model of its last round; sim is the cosine. The paper puts a projection head of two
layers before the output for z; here the activated penultimate layer, pooled, takes its place
(ours), so that every strategy trains the same network.

At a client's first round, z_prev is z_glob: ℓ_con is log 2 whatever the weights, its gradient is 0,
and training is plain SGD.
"""

import copy
from collections.abc import Callable

import torch
from torch.nn import functional

from fedeas_app.local.fedprox import proximal_pull
from fedeas_app.local.gradients import Forward
from fedeas_app.local.job import Job, Outcome, Tensors
from fedeas_app.local.sgd import train_sgd
from fedeas_app.models import Classifier

Represent = Callable[[torch.Tensor], torch.Tensor]


def train_moon(job: Job) -> Outcome:
    """Train near the global model's representation and away from the last local one; keep w."""
    model, settings = job.model, job.settings
    forward = contrastive_forward(job) if job.state else None
    pull = proximal_pull(model, settings.mu)
    loss = train_sgd(model, job.examples, settings, job.rng, forward=forward, correct=pull)
    return Outcome(loss, state=model.state_dict(), sent={})


def contrastive_forward(job: Job) -> Forward:
    """Return the forward pass that adds μ·ℓ_con."""
    mu, tau = job.settings.moon_mu, job.settings.moon_temperature
    represent_global = frozen(job.model, job.model.state_dict())
    represent_previous = frozen(job.model, job.state)

    def forward(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.relu(job.model.preactivations(images))
        z = job.model.representation(hidden)
        contrast = contrastive_loss(z, represent_global(images), represent_previous(images), tau)
        return job.model.head(hidden), mu * contrast

    return forward


def contrastive_loss(
    z: torch.Tensor, z_glob: torch.Tensor, z_prev: torch.Tensor, tau: float
) -> torch.Tensor:
    """Return the mean ℓ_con of a batch of representations, each of shape (batch, d)."""
    pairs = [functional.cosine_similarity(z, other, dim=1) for other in (z_glob, z_prev)]
    return -functional.log_softmax(torch.stack(pairs, dim=1) / tau, dim=1)[:, 0].mean()


def frozen(model: Classifier, state: Tensors) -> Represent:
    """Return a network's representation in evaluation mode and without gradient."""
    reference = copy.deepcopy(model)
    reference.load_state_dict(dict(state))
    reference.eval().requires_grad_(False)

    def represent(images: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return reference.representation(torch.relu(reference.preactivations(images)))

    return represent
