"""How good the global model is, as the clients find on images that they hold out."""

from collections import Counter
from collections.abc import Mapping
from logging import WARNING
from math import inf
from typing import NamedTuple

from flwr.app import ArrayRecord, Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid

from fedeas_app import messages
from fedeas_app.errors import UserError
from fedeas_app.federation import ask_willing, summarise
from fedeas_app.settings import Settings


class Finding(NamedTuple):
    """What one client found."""

    num_examples: int
    accuracy: float
    loss: float


class ClientEvaluation:
    """Has all clients evaluate global models, in the place of a test set of the server's.

    Parameters
    ----------
    grid : Grid
    nodes : mapping of int to int
        Node id of each partition.
    settings : Settings
    """

    def __init__(self, grid: Grid, nodes: Mapping[int, int], settings: Settings) -> None:
        self._grid = grid
        self._nodes = nodes
        self._timeout = settings.round_timeout

    def __call__(self, arrays: ArrayRecord) -> dict[str, float]:
        """Return ``accuracy`` and ``loss``, means over all images that are held out.

        ``held-out`` is their number. A client that fails does not count.

        Raises
        ------
        UserError
            No client evaluated the model on a single image.
        """
        failures: Counter[str] = Counter()
        findings = self._ask(arrays, failures)
        if failures:
            log(WARNING, "Not all clients evaluated the model: %s", summarise(failures))
        total = sum(finding.num_examples for finding in findings)
        if not total:
            reasons = summarise(failures) or "none of them holds out an image."
            raise UserError(
                f"No client could evaluate the model: {reasons} Set test-dataset, or give the "
                "SuperNodes more images."
            )
        return {
            "accuracy": sum(f.num_examples * f.accuracy for f in findings) / total,
            "loss": sum(f.num_examples * f.loss for f in findings) / total,
            "held-out": total,
        }

    def _ask(self, arrays: ArrayRecord, failures: Counter[str]) -> list[Finding]:
        """Return what the clients found in order of partition, so that sums are repeatable."""
        partitions = {node: partition for partition, node in self._nodes.items()}
        requests = {node: messages.evaluate_request(arrays) for node in partitions}
        found: dict[int, Finding] = {}
        for node, reply in ask_willing(
            self._grid, requests, messages.EVALUATE, self._timeout, failures
        ):
            finding = _read(reply)
            if finding is None:
                failures["A reply holds no usable accuracy."] += 1
            else:
                found[partitions[node]] = finding
        return [found[partition] for partition in sorted(found)]


def _read(reply: Message) -> Finding | None:
    """Return what a client found, or None where it cannot be so."""
    metrics = reply.content.metric_records.get(messages.METRICS, MetricRecord())
    count, accuracy, loss = (metrics.get(key) for key in ("num-examples", "accuracy", "loss"))
    if not (isinstance(count, int) and isinstance(accuracy, float) and isinstance(loss, float)):
        return None
    usable = count >= 0 and 0 <= accuracy <= 1 and 0 <= loss < inf
    return Finding(count, accuracy, loss) if usable else None
