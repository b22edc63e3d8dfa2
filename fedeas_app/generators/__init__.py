"""Image generators: anything that turns (label, seed) into an image."""

from fedeas_app.generators.protocol import Generator, require_fit
from fedeas_app.generators.registry import open_generator

__all__ = ["Generator", "open_generator", "require_fit"]
