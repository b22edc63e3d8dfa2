"""What a client does with its images: one file per local algorithm."""

from fedeas_app.local.examples import Examples
from fedeas_app.local.sgd import train_sgd

__all__ = ["Examples", "train_sgd"]
