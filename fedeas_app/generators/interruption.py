"""Ctrl-C that waits for the end of a step."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from threading import Event, current_thread, main_thread
from types import FrameType


@contextmanager
def noticing_ctrl_c() -> Iterator[Event]:
    """Yield an event that Ctrl-C sets, instead of tearing a step.

    A second Ctrl-C does not wait. In a process that `processes.share` started it means nothing:
    there the first one comes twice, from the terminal and from the parent, and a second one has
    the parent end them all.
    """
    noticed = Event()
    before = signal.getsignal(signal.SIGINT)
    # Another thread may not ask for signals; a background job of a script ignores them.
    if current_thread() is not main_thread() or before in (None, signal.SIG_IGN):
        yield noticed
        return

    def notice(number: int, frame: FrameType | None) -> None:
        noticed.set()
        signal.signal(signal.SIGINT, before if parent_process() is None else signal.SIG_IGN)

    signal.signal(signal.SIGINT, notice)
    try:
        yield noticed
    finally:
        if not noticed.is_set():
            signal.signal(signal.SIGINT, before)
