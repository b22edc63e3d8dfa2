"""Image generators: anything that turns (label, seed) into an image."""

from fedeas_app.generators.protocol import Generator, require_fit
from fedeas_app.generators.registry import at_float32, open_generator

__all__ = ["Generator", "at_float32", "open_generator", "require_fit"]
