"""How good the global model is, on the server's test set or on what clients hold out."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from flwr.app import ArrayRecord
from torch.nn import functional

from fedeas_app.data import Split
from fedeas_app.devices import repeatable, resolve_device
from fedeas_app.local.examples import Examples, normalise
from fedeas_app.models import Classifier
from fedeas_app.settings import Settings

_BATCH = 64  # on a CPU the activations of more do not stay in its cache: half the speed at 512


class Evaluator:
    """Evaluates global models on a test set.

    Parameters
    ----------
    model : Classifier
        Its weights are overwritten at each evaluation.
    test : Split
    settings : Settings
    cores : int
        How many of them may be used: batches are evaluated side by side, each with the run's
        ``threads``, so that the result is the same for any number. A client's are its workers'.
    """

    def __init__(self, model: Classifier, test: Split, settings: Settings, cores: int = 1) -> None:
        self._device = resolve_device(settings.device)
        self._threads = settings.threads
        self._workers = max(1, cores // settings.threads) if self._device.type == "cpu" else 1
        self._model = model.to(self._device)
        self._test = test

    def __call__(self, arrays: ArrayRecord) -> dict[str, float]:
        """Return ``accuracy`` in [0, 1] and the mean cross-entropy ``loss``."""
        self._model.load_state_dict(arrays.to_torch_state_dict())
        self._model.eval()
        correct, loss = 0, 0.0
        with repeatable(self._threads), self._pool() as pool:
            # In order, whichever is ready first: a sum of floats depends on it.
            for right, lost in pool.map(self._judge, range(0, len(self._test.labels), _BATCH)):
                correct, loss = correct + right, loss + lost
        count = max(1, len(self._test.labels))  # no image, no mistake: a client may hold out none
        return {"accuracy": correct / count, "loss": loss / count}

    def _pool(self) -> ThreadPoolExecutor:
        of_each = partial(torch.set_num_threads, self._threads)
        return ThreadPoolExecutor(self._workers, initializer=of_each)

    @torch.inference_mode()
    def _judge(self, start: int) -> tuple[int, float]:
        """Return how many images of a batch are named right, and the sum of their losses."""
        batch = slice(start, start + _BATCH)
        examples = Examples.from_arrays(self._test.images[batch], self._test.labels[batch])
        examples = examples.to(self._device)
        logits = self._model(normalise(examples.images))
        right = int((logits.argmax(1) == examples.labels).sum())
        return right, float(functional.cross_entropy(logits, examples.labels, reduction="sum"))


def area_under_curve(accuracies: Sequence[float]) -> float:
    """Return the mean height of the accuracy curve over rounds 1 to R.

    FedOUI's AUC: the trapezoid rule over rounds, divided by R - 1; the accuracy itself for R = 1.
    """
    if len(accuracies) == 1:
        return float(accuracies[0])
    return float(np.trapezoid(accuracies)) / (len(accuracies) - 1)
