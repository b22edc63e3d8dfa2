"""What a client does with its images: one file per local algorithm."""

from fedeas_app.local.examples import Examples
from fedeas_app.local.job import Job, Outcome
from fedeas_app.local.registry import train_locally
from fedeas_app.local.sgd import train_sgd

__all__ = ["Examples", "Job", "Outcome", "train_locally", "train_sgd"]
