"""Which replies count, and what is kept of them."""

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord

from fedeas_app import messages
from fedeas_app.federation import reason
from fedeas_app.strategies.report import Participant
from fedeas_app.strategies.updates import BadReplyError, Updates


def accept(
    partition: int, reply: Message, models: Updates, extras: Updates, *, has_state: bool
) -> Participant:
    """Check a reply and keep its arrays.

    Parameters
    ----------
    partition : int
        Whose reply it is.
    reply : Message
    models, extras : Updates
        Where the model goes, and what the strategy wants beside it.
    has_state : bool
        Whether clients keep a state, and so say whether it was lost.

    Raises
    ------
    BadReplyError
        The client failed, or its reply is not what it should be.
    """
    if reply.has_error():
        raise BadReplyError(reason(reply))
    metrics = reply.content.metric_records.get(messages.METRICS, MetricRecord())
    num_examples = metrics.get("num-examples")
    if type(num_examples) is not int or num_examples < 1:
        raise BadReplyError(f"num-examples is {num_examples!r}, not a whole number of at least 1")
    oui, loss = _number(metrics, "oui"), _number(metrics, "loss")
    if not 0 <= oui <= 1:
        raise BadReplyError(f"oui is {oui!r}, not between 0 and 1")
    details = {messages.STATE_LOST: _number(metrics, messages.STATE_LOST)} if has_state else {}
    # The model last: what was kept beside a model that does not count is never looked at.
    try:
        extras.add(partition, _arrays(reply, messages.EXTRAS))
    except BadReplyError as error:
        raise BadReplyError(f"beside the model, {error}") from error
    models.add(partition, _arrays(reply, messages.ARRAYS))
    return Participant(partition, num_examples, oui, loss, details=details)


def _arrays(reply: Message, key: str) -> ArrayRecord:
    return reply.content.array_records.get(key, ArrayRecord())


def _number(metrics: MetricRecord, key: str) -> float:
    value = metrics.get(key)
    if not isinstance(value, int | float) or not np.isfinite(value):
        raise BadReplyError(f"{key} is {value!r}, not a finite number")
    return float(value)
