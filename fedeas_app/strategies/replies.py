"""Which replies count, and what is kept of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord

from fedeas_app import messages
from fedeas_app.federation import reason
from fedeas_app.strategies.report import Participant
from fedeas_app.strategies.updates import BadReplyError, Updates


def _as_it_is(arrays: ArrayRecord) -> ArrayRecord:
    return arrays


@dataclass(frozen=True)
class Acceptance:
    """Checks the replies of a round one by one, and keeps the arrays of those that count.

    Parameters
    ----------
    declared : mapping of int to int
        n_k of each partition, as it said when it prepared.
    models, extras : Updates
        Where a model goes, and what the strategy wants beside it.
    has_state : bool
        Whether clients keep a state, and so say whether it was lost.
    unpack : callable
        Makes a model of the arrays of a reply; raises `ValueError` where they are none.
    """

    declared: Mapping[int, int]
    models: Updates
    extras: Updates
    has_state: bool
    unpack: Callable[[ArrayRecord], ArrayRecord] = _as_it_is

    def __call__(self, partition: int, reply: Message) -> Participant:
        """Check a partition's reply and keep its arrays.

        Raises
        ------
        BadReplyError
            The client failed, or its reply is not what it should be.
        """
        if reply.has_error():
            raise BadReplyError(reason(reply))
        metrics = reply.content.metric_records.get(messages.METRICS, MetricRecord())
        num_examples = _count(metrics, self.declared[partition])
        oui, loss = _number(metrics, "oui"), _number(metrics, "loss")
        if not 0 <= oui <= 1:
            raise BadReplyError(f"oui is {oui!r}, not between 0 and 1")
        lost = (messages.STATE_LOST,) if self.has_state else ()
        details = {key: _number(metrics, key) for key in lost}
        self._keep(partition, reply)
        return Participant(partition, num_examples, oui, loss, details=details)

    def _keep(self, partition: int, reply: Message) -> None:
        """Keep the arrays; the model last: what lies beside one that does not count is unseen."""
        try:
            self.extras.add(partition, _arrays(reply, messages.EXTRAS))
        except BadReplyError as error:
            raise BadReplyError(f"beside the model, {error}") from error
        try:
            model = self.unpack(_arrays(reply, messages.ARRAYS))
        except ValueError as error:
            raise BadReplyError(str(error)) from error
        self.models.add(partition, model)


def _count(metrics: MetricRecord, declared: int) -> int:
    """Return n_k, which a client cannot choose anew in every round."""
    num_examples = metrics.get("num-examples")
    if type(num_examples) is not int or num_examples < 1:
        raise BadReplyError(f"num-examples is {num_examples!r}, not a whole number of at least 1")
    if num_examples != declared:
        raise BadReplyError(
            f"num-examples is {num_examples}, but {declared} when the client prepared"
        )
    return num_examples


def _arrays(reply: Message, key: str) -> ArrayRecord:
    return reply.content.array_records.get(key, ArrayRecord())


def _number(metrics: MetricRecord, key: str) -> float:
    value = metrics.get(key)
    if not isinstance(value, int | float) or not np.isfinite(value):
        raise BadReplyError(f"{key} is {value!r}, not a finite number")
    return float(value)
