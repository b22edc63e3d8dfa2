"""SCAFFOLD's local steps (Karimireddy et al., arXiv 1910.06378).

    w ← w − η(g_k(w) − c_k + c)
    c_k⁺ = g_k(w_t)                          option I: the full local gradient
    c_k⁺ = c_k − c + (w_t − w)/(τη)          option II: the mean of the gradients met, τ steps

c and c_k are control variates of the trainable parameters alone; a client starts with c_k = 0.

The paper takes plain SGD steps. With momentum m the corrected gradient of step j moves the weights
by η(1 + m + … + m^(τ−1−j)) in all, so option II divides by η times the sum of these factors (ours);
c_k⁺ stays a mean of gradients, and for m = 0 it is the paper's. Weight decay is part of the local
objective, in both options.
"""

import copy

import torch
from torch.nn import functional

from fedeas_app.local.job import Job, Outcome, Tensors, copied, trainable
from fedeas_app.local.sgd import Correction, train_sgd


def train_scaffold(job: Job) -> Outcome:
    """Train by corrected SGD; keep c_k⁺ and send c_k⁺ − c_k."""
    w_t = copied(job.model)
    c = job.received
    c_k = job.state or {name: torch.zeros_like(w) for name, w in w_t.items()}
    gradient = full_gradient(job) if job.settings.scaffold_option == "I" else {}

    correct = drift_correction(job.model, c_k, c)
    loss = train_sgd(job.model, job.examples, job.settings, job.rng, correct=correct)

    new = gradient or gradients_met(job, w_t, c_k, c)
    return Outcome(loss, state=new, sent={name: new[name] - c_k[name] for name in new})


def drift_correction(model: torch.nn.Module, c_k: Tensors, c: Tensors) -> Correction:
    """Return what turns the gradient g into g − c_k + c."""
    names = trainable(model)
    shift = {name: c[name] - old for name, old in c_k.items()}
    if shift.keys() != names.keys():
        raise ValueError("control variates are those of the trainable parameters, no other")

    def correct() -> None:
        for w, shifted in zip(names.values(), (shift[name] for name in names), strict=True):
            if w.grad is not None:
                w.grad += shifted

    return correct


def gradients_met(job: Job, w_t: Tensors, c_k: Tensors, c: Tensors) -> dict[str, torch.Tensor]:
    """Return option II: c_k − c + (w_t − w)/(η·Σ_j a_j), with Σ_j a_j = τ without momentum."""
    settings = job.settings
    tau = settings.local_epochs * -(-len(job.examples) // settings.batch_size)
    moved = settings.learning_rate * total_step(tau, settings.momentum)
    w = copied(job.model)
    return {name: c_k[name] - c[name] + (w_t[name] - w[name]) / moved for name in w}


def total_step(tau: int, momentum: float) -> float:
    """Return Σ_{j<τ} (1 + m + … + m^(τ−1−j)): how far, in units of η, a unit gradient carries."""
    return sum((tau - age) * momentum**age for age in range(tau))


def full_gradient(job: Job) -> dict[str, torch.Tensor]:
    """Return option I: the gradient of the local objective at the weights as they are.

    Over all examples, without augmentation. A copy takes it, in training mode, as a step would, so
    that batch statistics stay as they were sent.
    """
    model = copy.deepcopy(job.model).train()
    model.zero_grad()
    for images, labels in job.examples.in_order(job.settings.batch_size):
        loss = functional.cross_entropy(model(images), labels, reduction="sum")
        (loss / len(job.examples)).backward()
    decay = job.settings.weight_decay
    return {
        name: decay * w.detach() + (torch.zeros_like(w) if w.grad is None else w.grad)
        for name, w in trainable(model).items()
    }
