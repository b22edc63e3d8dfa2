"""A federation in one process: real client apps behind a grid that delivers as told."""

import random
from collections.abc import Callable, Iterable, Mapping

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.serverapp import Grid

from client_app import app
from fedeas_app.settings import Settings

SUPERLINK = 1
Tamper = Callable[[int, Message, Message], Message | None]


class FakeGrid(Grid):
    """Runs the client app on push, as Flower's simulation does, and hands replies out on pull.

    Parameters
    ----------
    settings : Settings
        The run configuration of every node.
    partitions : mapping of int to int
        Partition of each node id.
    shuffle : int
        Seed of the order in which replies come in.
    tamper : callable, optional
        Gets the partition, the request and the honest reply; returns the reply that arrives, or
        None for none at all.
    at_a_time : int
        Most replies that one pull returns.
    node_configs : mapping of int to dict, optional
        What the node of each partition is told, in the place of its partition of a shared dataset.
    """

    def __init__(
        self,
        settings: Settings,
        partitions: Mapping[int, int] | int = 4,
        *,
        shuffle: int = 0,
        tamper: Tamper | None = None,
        at_a_time: int = 1000,
        node_configs: Mapping[int, Mapping[str, int | str]] | None = None,
    ) -> None:
        if isinstance(partitions, int):
            partitions = {node_id: k for k, node_id in enumerate(node_ids(partitions))}
        self.partitions = dict(partitions)
        self.requests: list[Message] = []
        self.replies: list[Message] = []
        self.tamper = tamper
        self._at_a_time = at_a_time
        self._order = random.Random(shuffle)  # noqa: S311  # no secret: an order that repeats
        self._waiting: list[Message] = []
        self._run_config = settings.to_flat()
        self._contexts: dict[int, Context] = {}
        for node, partition in self.partitions.items():
            shared = _node_config(partition, self.partitions)
            self.join(node, partition, dict(node_configs[partition]) if node_configs else shared)

    def join(self, node: int, partition: int, config: Mapping[str, int | str]) -> None:
        """Connect a node; it may be one that was here before under another id."""
        self.partitions[node] = partition
        self._contexts[node] = Context(1, node, dict(config), RecordDict(), self._run_config)

    def leave(self, node: int) -> None:
        """Disconnect a node; what is sent to it comes back as an error of the SuperLink's."""
        del self._contexts[node]

    def set_run(self, run: object) -> None:
        """Do without."""

    @property
    def run(self) -> None:
        """Do without."""

    def create_message(self, *args: object, **kwargs: object) -> Message:
        raise AssertionError("deprecated by Flower: messages are made by their constructor")

    def get_node_ids(self) -> Iterable[int]:
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        pushed = list(messages)
        for number, msg in enumerate(pushed, start=len(self.requests)):
            msg.metadata.__dict__["_message_id"] = f"message-{number}"
        self.requests += pushed
        for msg in pushed:
            arrived = over_the_wire(msg)
            node = msg.metadata.dst_node_id
            reply: Message | None = over_the_wire(self._answer(arrived, self._contexts.get(node)))
            if self.tamper is not None:
                reply = self.tamper(self.partitions[node], arrived, reply)
            self._waiting += [] if reply is None else [reply]
        self._order.shuffle(self._waiting)
        return [msg.metadata.message_id for msg in pushed]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        wanted = set(message_ids)
        here = [msg for msg in self._waiting if msg.metadata.reply_to_message_id in wanted]
        here = here[: self._at_a_time]
        self._waiting = [msg for msg in self._waiting if not any(msg is other for other in here)]
        self.replies += here
        return here

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        raise AssertionError("Flower's own waiting would hold all replies of a round")

    def _answer(self, msg: Message, context: Context | None) -> Message:
        if context is None:
            return by_superlink(Message(Error(5, "Node unavailable."), reply_to=msg))
        try:
            return app(msg, context)
        except Exception as error:  # what Flower sends on: the type and the text
            return Message(Error(2, f"{type(error)}:<'{error}'>"), reply_to=msg)


def node_ids(count: int, seed: int = 0) -> list[int]:
    """Return random node ids, as Flower draws them."""
    return random.Random(f"nodes {seed}").sample(range(2, 2**63), count)  # noqa: S311  # no secret: an order that repeats


def over_the_wire(msg: Message) -> Message:
    """Return what arrives at the other end."""
    return message_from_proto(message_to_proto(msg))


def failed(text: str) -> Tamper:
    """Return a fault: every client answers training with an error."""
    return lambda partition, request, reply: (
        Message(Error(2, f"<class 'ValueError'>:<'{text}'>"), reply_to=request)
        if request.metadata.message_type == "train"
        else reply
    )


def by_superlink(reply: Message) -> Message:
    """Return a reply whose sender is the SuperLink, as for nodes that are gone."""
    reply.metadata.__dict__["_src_node_id"] = SUPERLINK
    return reply


def _node_config(partition: int, partitions: Mapping[int, int]) -> dict[str, int | str]:
    return {"partition-id": partition, "num-partitions": len(partitions)}
