"""The exponential mean of the global network over rounds (EMA), which is what the clients get."""

from typing import Final

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from fedeas_app.strategies.state import StrategyState

_PREFIX: Final = "ema/"
_ROUNDS: Final = "ema-rounds"


class RoundAverage:
    """Σ d^(r−i)·w_i / Σ d^(r−i) over the rounds i = 1…r that counted.

    The division (ours) leaves the first network, which is random, out of it.

    Parameters
    ----------
    decay : float
        d, from 0 (the last round alone) to below 1.
    """

    def __init__(self, decay: float) -> None:
        self._decay = decay
        self._rounds = 0
        self._mean: dict[str, NDArray[np.generic]] = {}

    def add(self, arrays: ArrayRecord) -> None:
        """Take in the network of one more round."""
        self._rounds += 1
        step = (1 - self._decay) / (1 - self._decay**self._rounds)
        for name, array in arrays.items():
            new = array.numpy()
            old = self._mean.get(name, new).astype(np.float64)
            self._mean[name] = np.asarray(old + step * (new.astype(np.float64) - old), new.dtype)

    def __bool__(self) -> bool:
        """Whether any round was added."""
        return self._rounds > 0

    def arrays(self) -> ArrayRecord:
        """Return the mean; nothing where no round was added."""
        return ArrayRecord({name: Array(mean) for name, mean in self._mean.items()})

    def into(self, state: StrategyState) -> StrategyState:
        """Return a strategy's state with this mean in it, to be kept in one checkpoint."""
        own = {_PREFIX + name: Array(mean) for name, mean in self._mean.items()}
        values = state.values | {_ROUNDS: self._rounds}
        return StrategyState(ArrayRecord(dict(state.arrays) | own), values)

    def taken_from(self, state: StrategyState) -> StrategyState:
        """Go on from the mean in a state, and return the strategy's own part of that."""
        self._rounds = int(state.values.get(_ROUNDS, 0))
        own = {n: a for n, a in state.arrays.items() if n.startswith(_PREFIX)}
        self._mean = {name.removeprefix(_PREFIX): a.numpy() for name, a in own.items()}
        rest = {name: array for name, array in state.arrays.items() if name not in own}
        values = {key: value for key, value in state.values.items() if key != _ROUNDS}
        return StrategyState(ArrayRecord(rest), values)
