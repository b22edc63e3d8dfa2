"""Runs and comparisons made up from numbers: what figures read, without training anything."""

from pathlib import Path

import numpy as np

from fedeas_app import budget
from fedeas_app.comparison.reading import Arm, Comparison
from fedeas_app.runs.reading import ClassCounts, Run
from fedeas_app.settings import Settings


def made_up_counts(clients=4, classes=3, seed=0, alpha=0.3):
    """Return skewed real counts, shape (K, C), each client with an image at least."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(classes, alpha), size=clients)
    return np.round(shares * rng.integers(20, 200, (clients, 1))).astype(np.int64) + np.eye(
        clients, classes, dtype=np.int64
    )


def made_up_plan(real, synthetic, beta):
    """Return a plan.json for tables of counts."""
    before, after = budget.client_imbalance(real), budget.client_imbalance(real + synthetic)
    return {
        "beta": beta,
        "synthetic": int(synthetic.sum()),
        "imbalance-before": budget.imbalance(real),
        "imbalance-after": budget.imbalance(real + synthetic),
        "clients": [
            {
                "partition-id": k,
                "num-examples": int(real[k].sum()),
                "synthetic": int(synthetic[k].sum()),
                "imbalance-before": float(before[k]),
                "imbalance-after": float(after[k]),
            }
            for k in range(len(real))
        ],
    }


def made_up_rounds(accuracies, clients, rng):
    """Return the lines of a rounds.jsonl, the initial model's first."""
    return ({"round": 0, "accuracy": 0.1, "loss": 2.3}, *(
        _line(number, accuracy, clients, rng) for number, accuracy in enumerate(accuracies, 1)
    ))  # fmt: skip


def _line(number, accuracy, clients, rng):
    weights = rng.dirichlet(np.full(clients, 3.0))
    return {
        "round": number,
        "accuracy": accuracy,
        "loss": 2.0 - accuracy,
        "train-loss": 1.5 - accuracy,
        "effective-clients": float(1 / (weights**2).sum()),
        "drift": 1.0 + number / 10,
        "participants": [
            {
                "partition": k,
                "num-examples": 10 * (k + 1),
                "oui": float(rng.beta(5, 15)),
                "score": 0.5,
                "weight": float(weights[k]),
                "drift": 0.5 + k,
            }
            for k in range(clients)
        ],
        "failures": {},
    }


def make_run(accuracies=(0.3, 0.5, 0.6), real=None, counts=True, seed=0, **keys):
    """Return a run of made-up numbers; keys are those of the settings, in snake case."""
    real = made_up_counts(seed=seed) if real is None else np.array(real)
    flat = {"seed": seed, **{name.replace("_", "-"): value for name, value in keys.items()}}
    settings = Settings.parse(flat)
    synthetic = budget.allocate(real, settings.policy, beta=settings.beta)
    classes = tuple(f"class {c}" for c in range(real.shape[1]))
    rng = np.random.default_rng(seed)
    return Run(
        directory=Path("run"),
        settings=settings,
        summary={
            "status": "completed",
            "final": accuracies[-1] if accuracies else 0.0,
            "auc": float(np.mean(accuracies)) if accuracies else 0.0,
        },
        manifest={"digests": {"partition": f"p{seed}"}},
        plan=made_up_plan(real, synthetic, settings.beta),
        rounds=made_up_rounds(accuracies, len(real), rng),
        counts=ClassCounts(classes, real, synthetic) if counts else None,
    )


def make_comparison(arms, varied=("strategy", "policy", "beta")):
    """Return a comparison of (label, values, runs)."""
    made = tuple(Arm(label, values, tuple(runs)) for label, values, runs in arms)
    return Comparison(Path("comparison"), made, made[0].label, None, varied)
