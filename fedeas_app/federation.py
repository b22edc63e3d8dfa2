"""The server's line to the clients: who is there, and replies handed on as they come in."""

import re
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from logging import INFO, WARNING
from typing import Any

from flwr.app import Message, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid

from fedeas_app.errors import UserError
from fedeas_app.processes import cores
from fedeas_app.settings import AUTO, Settings
from fedeas_app.wording import plural

CONNECT_TIMEOUT = 120.0  # seconds to wait for the clients that were asked for
_CONNECT_POLL = 1.0  # seconds between looks for nodes
_FIRST_POLL, _LAST_POLL = 0.02, 1.0  # seconds between looks for replies
# In simulation a look costs nothing, but every message under way does: Flower compares all of them
# with every node, ten times a second.
_LAST_POLL_SIMULATED = 0.1
_UNDER_WAY_SIMULATED = 4  # messages for each core
_AFTER_TRACEBACK = "Exception ClientAppException occurred. Message: "


class StreamingGrid(Grid):
    """A grid whose replies can be used one by one, so that a round never holds all of them.

    Everything else is the wrapped grid's.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def set_run(self, run: Any) -> None:
        """Hand on."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """Hand on."""
        return self._grid.run

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        """Hand on."""
        return self._grid.create_message(*args, **kwargs)

    def get_node_ids(self) -> Iterable[int]:
        """Hand on."""
        return self._grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Hand on."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Hand on."""
        return self._grid.pull_messages(message_ids)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterator[Message]:
        """Send all messages; yield each reply when it arrives, until the last or the timeout.

        In simulation no more are under way than keep all workers busy; the next is sent as one
        comes back.
        """
        simulated, unsent = _is_simulation(self._grid), deque(messages)
        at_once = _UNDER_WAY_SIMULATED * cores() if simulated else len(unsent)
        longest = _LAST_POLL_SIMULATED if simulated else _LAST_POLL
        waiting = self._send(unsent, at_once)
        deadline = time.monotonic() + (timeout if timeout is not None else float("inf"))
        pause = _FIRST_POLL
        while waiting:
            replies = list(self._grid.pull_messages(waiting))
            waiting -= {reply.metadata.reply_to_message_id for reply in replies}
            waiting |= self._send(unsent, at_once - len(waiting))
            yield from _release(replies)
            pause = _FIRST_POLL if replies else min(pause * 1.5, longest)
            left = deadline - time.monotonic()
            if left <= 0:
                break
            if waiting:
                time.sleep(min(pause, left))

    def _send(self, unsent: deque[Message], room: int) -> set[str]:
        """Send up to so many, and return the ids of those that the SuperLink did not refuse."""
        sent: set[str] = set()
        while unsent and len(sent) < room:
            batch = [unsent.popleft() for _ in range(min(room - len(sent), len(unsent)))]
            sent.update(filter(None, self._grid.push_messages(batch)))  # no id: no reply
        return sent


def connect(grid: Grid, settings: Settings, timeout: float = CONNECT_TIMEOUT) -> list[int]:
    """Wait for the clients asked for and return their node ids; the log says who is waited for.

    With ``num-clients = "auto"`` these are the nodes connected once a second brings no other.

    Raises
    ------
    UserError
        Another number of SuperNodes is connected.
    """
    wanted = settings.num_clients
    deadline = time.monotonic() + timeout
    nodes = sorted(grid.get_node_ids())
    settled, told = False, ""
    while not _enough(nodes, wanted, settled) and time.monotonic() < deadline:
        if settled and _is_simulation(grid):
            break  # simulated nodes are registered in one go: no more will come
        told = _tell(_waiting_for(wanted, len(nodes)), told)
        time.sleep(_CONNECT_POLL if nodes else _FIRST_POLL)
        before, nodes = nodes, sorted(grid.get_node_ids())
        settled = bool(nodes) and nodes == before
    if not _enough(nodes, wanted, settled) or wanted not in (AUTO, len(nodes)):
        raise UserError(_wrong_number(wanted, len(nodes)))
    return nodes


def still_connected(grid: Grid, settings: Settings, before: int) -> list[int]:
    """Return who is there by now, late in a run: at least as many as before, or who is left.

    Raises
    ------
    UserError
        Nobody is.
    """
    nodes = sorted(grid.get_node_ids())
    if len(nodes) >= before:
        return nodes
    anybody = Settings.parse(settings.to_flat() | {"num-clients": AUTO})
    nodes = connect(grid, anybody)
    log(WARNING, "%s of %s are left.", len(nodes), plural(before, "SuperNode"))
    return nodes


def _waiting_for(wanted: int | str, connected: int) -> str:
    """Say who is missing; nothing where whoever is connected will do."""
    if wanted != AUTO:
        return f"Waiting for {wanted} SuperNodes; connected: {connected}."
    return "" if connected else "Waiting for SuperNodes; none is connected."


def _tell(text: str, told: str) -> str:
    """Log a text, unless that is what was told last, and return it."""
    if text not in ("", told):
        log(INFO, text)
    return text


def _enough(nodes: list[int], wanted: int | str, settled: bool) -> bool:
    return settled if wanted == AUTO else len(nodes) >= int(wanted)


def _wrong_number(wanted: int | str, connected: int) -> str:
    if wanted == AUTO:
        return "No SuperNode is connected; start some, or run a simulation with `fedeas run`."
    there = plural(connected, "SuperNode is", "SuperNodes are")
    return (
        f"num-clients is {wanted}, but {there} connected; in simulation add "
        f"--federation-config 'num-supernodes={wanted}' (`fedeas run` does), else connect as many "
        'SuperNodes, or set num-clients to "auto".'
    )


def ask(
    grid: Grid, requests: dict[int, RecordDict], message_type: str, timeout: float
) -> Iterator[tuple[int, Message]]:
    """Send each node its request and yield (node id, reply) as replies come in.

    Raises
    ------
    UserError
        When all is over, if a node failed or did not answer in time: each reason once, counted.
    """
    failures: Counter[str] = Counter()
    yield from ask_willing(grid, requests, message_type, timeout, failures)
    if failures:
        raise UserError(f"{message_type} failed: {summarise(failures)}")


def ask_willing(
    grid: Grid,
    requests: dict[int, RecordDict],
    message_type: str,
    timeout: float,
    failures: Counter[str],
) -> Iterator[tuple[int, Message]]:
    """Ask likewise, and count the reasons of those that fail instead of raising an error."""
    sent = [Message(content, node, message_type) for node, content in requests.items()]
    addressee, answered = Addressees(sent), 0
    for reply in StreamingGrid(grid).send_and_receive(sent, timeout=timeout):
        answered += 1
        refuse_dead_worker(reply)
        if reply.has_error():
            failures[reason(reply)] += 1
        else:
            yield addressee(reply), reply
    if answered < len(sent):
        failures[f"No reply within {timeout:g} seconds."] = len(sent) - answered


def refuse_dead_worker(reply: Message) -> None:
    """End a simulation whose worker was killed, say for want of memory.

    Flower puts the dead worker back into its pool, where it fails every client it is given, at
    once, for the rest of the run.

    Raises
    ------
    UserError
    """
    if reply.has_error() and "ActorDiedError" in (reply.error.reason or ""):
        raise UserError(
            "A simulation worker was killed, perhaps for want of memory, and Flower cannot replace "
            "it; run again, with fewer workers (a larger `threads`) if memory was short."
        )


class Addressees:
    """Tells which node a reply is about; errors made up by the SuperLink do not carry it.

    Messages get their ids as they are sent, in order and perhaps only some at a time, so each is
    looked at when a reply to it or to a later one has come: once, however many there are.
    """

    def __init__(self, sent: Iterable[Message]) -> None:
        self._ahead = deque(sent)
        self._nodes: dict[str, int] = {}

    def __call__(self, reply: Message) -> int:
        """Return the id of the node that was asked, or else that of the sender."""
        origin = reply.metadata.reply_to_message_id
        if origin not in self._nodes:
            self._go_to(origin)
        return self._nodes.get(origin, reply.metadata.src_node_id)

    def _go_to(self, origin: str) -> None:
        """Note the nodes of all messages up to that one; of none if it is not among them."""
        ids = (message.metadata.message_id for message in self._ahead)
        passed = next((n for n, found in enumerate(ids, start=1) if found == origin), 0)
        for _ in range(passed):
            metadata = self._ahead.popleft().metadata
            self._nodes[metadata.message_id] = metadata.dst_node_id


def reason(reply: Message) -> str:
    """Return a failed client's own sentence, without Flower's and Ray's wrapping."""
    text = reply.error.reason or f"error code {reply.error.code}"
    wrapped = re.fullmatch(r"<class '[^']+'>:<'(.*)'>", text, re.DOTALL)
    # In simulation a traceback of Flower's Ray actor, other for every worker, comes before it.
    return (wrapped.group(1) if wrapped else text).rpartition(_AFTER_TRACEBACK)[2].strip()


def summarise(failures: Counter[str]) -> str:
    """Name each distinct reason once, the most frequent first, with the number of clients."""
    return " ".join(
        f"{text} ({count} clients)" if count > 1 else text for text, count in failures.most_common()
    )


def _release(replies: list[Message]) -> Iterator[Message]:
    """Yield the replies, letting go of each before the next is worked on."""
    while replies:
        yield replies.pop(0)


def _is_simulation(grid: Grid) -> bool:
    while isinstance(grid, StreamingGrid):
        grid = grid._grid
    return type(grid).__name__ == "InMemoryGrid"
