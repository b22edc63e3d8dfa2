"""A network of a few thousand weights, for the tests and for the processes that they start."""

from fedeas_app.generators.network import Preset

MICRO = Preset((8, 16), 1, (1,), 4, 2e-3)
