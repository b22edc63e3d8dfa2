"""What a client tells the server about its errors: nothing of its own data."""

from collections.abc import Callable
from logging import ERROR

from flwr.app import Context, Message
from flwr.common.logger import log

from fedeas_app.errors import PublicError, UserError
from fedeas_app.settings import OWN


def discreet(
    msg: Message, context: Context, answer: Callable[[Message, Context], Message]
) -> Message:
    """Answer a message; where a node has data of its own, keep the reason of a failure there.

    Flower sends an exception's text to the server, and ours name files, folders and classes. The
    node's own log has them in full.

    Raises
    ------
    PublicError
        In the place of any other error: it names the partition and the kind of error alone.
    """
    try:
        return answer(msg, context)
    except PublicError:
        raise
    except Exception as error:
        if context.run_config.get("dataset") != OWN:
            raise
        log(ERROR, "%s", error, exc_info=None if isinstance(error, UserError) else error)
        kind = "" if isinstance(error, UserError) else f" ({type(error).__name__})"
        partition = context.node_config.get("partition-id", "?")
        raise PublicError(
            f"Partition {partition} failed{kind}; the log of its SuperNode says why."
        ) from None
