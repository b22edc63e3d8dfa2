"""SuperNodes that come, or come back, while a run goes on: prepared first, then taken in."""

from collections.abc import Callable, Mapping
from logging import INFO, WARNING
from typing import ClassVar

from flwr.app import Message, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid

from fedeas_app import messages
from fedeas_app.client import Order
from fedeas_app.errors import UserError
from fedeas_app.federation import reason
from fedeas_app.generators.registry import LOST
from fedeas_app.preparation import ClientPlan, Plan, read_client


class Latecomers:
    """Looks for new nodes between rounds, without waiting for them.

    A node that was not there is asked to prepare when it is first seen, and takes part from the
    round after its answer on. One that comes back under another node id, as SuperNodes without keys
    do, takes its partition's place again. Where a total was shared out, nothing is left for a new
    partition: it makes no images.

    A client that has lost the generator that the run made is asked to prepare again, as nobody
    else would give it that.

    Parameters
    ----------
    grid : Grid
    plan : Plan
        Gets the new clients.
    on_client : callable
        Called with each client that is taken in, and the plan with it.

    Attributes
    ----------
    kind : str
        The type of the message that asks a new node.
    """

    kind: ClassVar[str] = messages.PREPARE

    def __init__(
        self, grid: Grid, plan: Plan, on_client: Callable[[ClientPlan, Plan], None]
    ) -> None:
        self._grid = grid
        self._plan = plan
        self._on_client = on_client
        self._asked: dict[str, Message] = {}

    def request(self) -> RecordDict:
        """Return what a new node is asked."""
        order = Order(beta=self._plan.beta, generator=self._plan.generator)
        return messages.order_request(order, self._plan.files)

    def read(self, reply: Message) -> tuple[ClientPlan, str]:
        """Return what it answers, and the digest of its generator.

        Raises
        ------
        UserError
            It is not what it should be.
        """
        return read_client(reply), messages.read_generator(reply)

    def welcome(self) -> None:
        """Take in who is ready by now, and ask who is new."""
        online = set(self._grid.get_node_ids())
        if self._asked:
            for reply in list(self._grid.pull_messages(list(self._asked))):
                asked = self._asked.pop(reply.metadata.reply_to_message_id)
                self._receive(asked.metadata.dst_node_id, reply, online)
        self._ask({node: self.request() for node in online - set(self._plan.nodes.values())})

    def renew(self, failures: Mapping[int, str]) -> None:
        """Hand the generator out again to the partitions that failed because they lost it."""
        online, orders = set(self._grid.get_node_ids()), self._plan.orders
        lost = {self._plan.nodes[k]: orders[k] for k, why in failures.items() if LOST in why}
        here = {node: order for node, order in lost.items() if node in online}
        self._ask({n: messages.order_request(o, self._plan.files) for n, o in here.items()})

    def _ask(self, requests: Mapping[int, RecordDict]) -> None:
        """Send these nodes their requests, but for those whose answer to an earlier one is due."""
        waiting = {message.metadata.dst_node_id for message in self._asked.values()}
        nodes = sorted(requests.keys() - waiting)
        sent = [Message(requests[node], node, self.kind) for node in nodes]
        ids = self._grid.push_messages(sent) if sent else []
        self._asked |= {number: msg for number, msg in zip(ids, sent, strict=True) if number}

    def _receive(self, node: int, reply: Message, online: set[int]) -> None:
        if reply.has_error():
            log(WARNING, "A SuperNode could not be prepared: %s", reason(reply))
            return
        if node in self._plan.nodes.values():  # it has its generator again
            return
        try:
            client, generator = self.read(reply)
        except UserError as error:
            log(WARNING, "A SuperNode that came later cannot take part: %s", error)
            return
        partition = client.partition_id
        if self._plan.nodes.get(partition) in online:
            log(WARNING, "Another SuperNode is partition %s already; it stays.", partition)
            return
        self._take_in(node, client, generator)

    def _take_in(self, node: int, client: ClientPlan, generator: str) -> None:
        order = Order(beta=self._plan.beta, generator=self._plan.generator or generator)
        self._plan.admit(node, client, order)
        log(INFO, "Partition %s takes part from the next round on.", client.partition_id)
        self._on_client(client, self._plan)
