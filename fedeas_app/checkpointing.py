"""When a run's checkpoints are written: as often as asked for, and at an early end.

Flower calls what is registered with it when a process of its own gets SIGTERM or SIGINT, in a run
on a SuperLink and in simulation alike; the server of a run has no other way to hear of its end.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from flwr.app import ArrayRecord
from flwr.supercore.exit import add_exit_handler

from fedeas_app.checkpoint import Checkpoint, is_due
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings
from fedeas_app.strategies.state import StrategyState


class Checkpoints:
    """The checkpoints of one run, as a context: what ends it early leaves one of its last round.

    Parameters
    ----------
    settings : Settings
        With ``checkpoint-every`` 0 there is none at all.
    directory : Path
        Of the run's record.
    """

    def __init__(self, settings: Settings, directory: Path) -> None:
        self._settings = settings
        self._directory = directory
        self._unwritten: Checkpoint | None = None
        self._over = False

    def __enter__(self) -> Self:
        _going_on.append(self)
        if not _heard:
            add_exit_handler(_end_all, run_before_force_exit=True)
            _heard.append(True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write what is not written yet, if the run ends early."""
        _going_on.remove(self)
        if kind is not None:
            self.end()

    def finished(
        self, server_round: int, arrays: ArrayRecord, state: Callable[[], StrategyState]
    ) -> bool:
        """Take what is known after a round; tell whether it is written already.

        Raises
        ------
        UserError
            It cannot be written.
        """
        if self._over or not self._settings.checkpoint_every:
            return False
        self._unwritten = Checkpoint(server_round, arrays, state())
        due = is_due(server_round, self._settings)
        if due:
            self._unwritten.save(self._directory)
            self._unwritten = None
        return due

    def end(self) -> None:
        """Write the last round's, whichever thread asks; nothing is written after it."""
        self._over = True
        last, self._unwritten = self._unwritten, None
        if last is not None:
            with suppress(UserError):  # the older one is still there to go on from
                last.save(self._directory)


_going_on: list[Checkpoints] = []
_heard: list[bool] = []


def _end_all() -> None:
    for checkpoints in tuple(_going_on):  # the run's own thread may be leaving
        checkpoints.end()
