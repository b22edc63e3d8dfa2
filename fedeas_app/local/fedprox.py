"""FedProx's local objective: a pull towards the global model (Li et al., arXiv 1812.06127).

    min_w  F_k(w) + (μ/2)·‖w − w_t‖²

With μ = 0 there is no pull: the local SGD of FedAvg.
"""

import torch

from fedeas_app.local.job import Job, Outcome, copied, trainable
from fedeas_app.local.sgd import Correction, train_sgd


def train_fedprox(job: Job) -> Outcome:
    """Train by SGD on the local loss and the proximal term."""
    pull = proximal_pull(job.model, job.settings.mu)
    loss = train_sgd(job.model, job.examples, job.settings, job.rng, correct=pull)
    return Outcome(loss, state={}, sent={})


def proximal_pull(model: torch.nn.Module, mu: float) -> Correction | None:
    """Return what adds the proximal term's gradient, μ(w − w_t), with w_t the weights as of now."""
    if mu == 0:
        return None
    w_t = copied(model)

    def correct() -> None:
        for name, w in trainable(model).items():
            if w.grad is not None:
                w.grad += mu * (w.detach() - w_t[name])

    return correct
