"""The one exception for what a user can put right, and how it quotes others."""

from types import TracebackType


class UserError(Exception):
    """A mistake in the input: one sentence saying what was given, what is allowed, what to do.

    Commands print the sentence and exit with status 1. Several mistakes have a sentence each, which
    are `args`.
    """

    def __str__(self) -> str:
        return " ".join(map(str, self.args))


class PublicError(UserError):
    """One whose sentence holds nothing of a node's own, so that it may leave the node."""


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, to be quoted in a sentence, or its type."""
    line, *_ = str(error).strip().splitlines() or [""]
    return line.rstrip(" .") or type(error).__name__


class QuietUserError(UserError):
    """A `UserError` on its way to Flower, which logs an app's exceptions with their traceback.

    This one shows it none, so that the sentence stands alone there too.
    """

    @property
    def __traceback__(self) -> TracebackType | None:
        """Nothing: where a user's mistake was noticed is of no use to the user."""
        return None

    @__traceback__.setter
    def __traceback__(self, value: TracebackType | None) -> None:
        """Ignore what ``with_traceback`` and the logging machinery set."""
