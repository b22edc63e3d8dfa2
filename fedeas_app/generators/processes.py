"""Several processes of this machine that share one training: one for each GPU."""

import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from threading import Thread

from fedeas_app.errors import UserError

Work = Callable[[], None]

_GRACE = 2.0  # seconds
_PATIENCE = 30.0  # seconds for the end of a step, after Ctrl-C


def share(work: Work, processes: int) -> None:
    """Run the same work in so many processes that accelerate joins into one group.

    Parameters
    ----------
    work : callable
        Pickled to the processes that this one starts, so a function at the top of a module or a
        `partial` of one.
    processes : int
        One runs here.

    Raises
    ------
    UserError
        What the work raised in one of the processes, or that one of them died.
    KeyboardInterrupt
        Ctrl-C was pressed. The first process, which writes, was told so and could end by itself.
    """
    if processes == 1:
        work()
        return
    context = multiprocessing.get_context("spawn")
    mistakes: SimpleQueue[str] = context.SimpleQueue()
    port = _free_port()
    members: list[BaseProcess] = [
        context.Process(target=_member, args=(work, rank, processes, port, mistakes))
        for rank in range(processes)
    ]
    try:
        with _ctrl_c_held_back():
            for member in members:
                member.start()
        _wait_for(members)
    except KeyboardInterrupt:
        _let_end(members[0])
        raise
    finally:
        _end(members)
    _raise_first(members, mistakes)


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Let Ctrl-C come after the block; for processes started there, when they ask for it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _let_end(first: BaseProcess) -> None:
    """Tell the first process of Ctrl-C, which may have reached the parent alone, and wait for it.

    A second Ctrl-C ends the wait.
    """
    if first.pid is not None and first.is_alive():
        os.kill(first.pid, signal.SIGINT)
        first.join(_PATIENCE)


def _end(members: list[BaseProcess]) -> None:
    for member in members:
        if member.pid is not None:  # it was started
            member.terminate()
            member.join()


def _member(work: Work, rank: int, processes: int, port: int, mistakes: "SimpleQueue[str]") -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    _join_group(rank, processes, port)
    try:
        if rank == 0:  # the others wait in the middle of a step until the parent ends them
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        work()
    except UserError as error:
        mistakes.put(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it may come from the parent as well
        sys.exit(130)
    except Exception:
        # Where another's end is the cause, the parent ends this one before it complains.
        time.sleep(_GRACE)
        raise


def _end_with_parent() -> None:
    """Do not go on, unattended and holding the checkpoint, when the parent is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _join_group(rank: int, processes: int, port: int) -> None:
    """Set the variables from which accelerate reads this process's place in the group."""
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    if "OMP_NUM_THREADS" not in os.environ:
        import torch

        threads = max(1, (os.cpu_count() or 1) // processes)
        os.environ["OMP_NUM_THREADS"] = str(threads)  # for accelerate
        torch.set_num_threads(threads)  # which has read that variable before


def _wait_for(members: list[BaseProcess]) -> None:
    """Wait until all have ended, or one has failed: the others would wait for it for ever."""
    running = list(members)
    while running and not any(member.exitcode for member in members):
        wait([member.sentinel for member in running])
        running = [member for member in running if member.exitcode is None]


def _raise_first(members: list[BaseProcess], mistakes: "SimpleQueue[str]") -> None:
    if not mistakes.empty():
        raise UserError(mistakes.get())
    if any(member.exitcode for member in members):
        codes = ", ".join(str(member.exitcode) for member in members)
        raise UserError(
            f"A training process died (exit statuses {codes}); the same command continues from "
            "the last checkpoint."
        )


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
