"""Before round 1: every client works out what it lacks and makes it; the server adds up totals."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord
from flwr.serverapp import Grid

from fedeas_app import budget, fields, messages
from fedeas_app.client import Order
from fedeas_app.errors import UserError
from fedeas_app.federation import ask
from fedeas_app.settings import Settings

# With β = "auto" clients are asked about this many values at a time: enough for usual data in one
# go, and no more than needed, because a long list would let the server guess at counts.
_BETAS_AT_A_TIME = 12


@dataclass(frozen=True)
class ClientPlan:
    """What one client reported from its preparation; the server knows no more about its data."""

    partition_id: int
    num_examples: int
    synthetic: int
    made: int
    imbalance_before: float
    imbalance_after: float
    seconds: float


@dataclass
class Plan:
    """The plan of a run: every client's part, and where each is reached.

    Attributes
    ----------
    beta : float
        The β applied; 0 where the policy has none.
    clients : tuple of ClientPlan
        In order of partition.
    nodes : dict
        Node id of each partition.
    orders : dict
        What was decided for each partition.
    generator : str
        The digest of the generator of all clients that need one; empty where none does.
    files : ArrayRecord
        That generator, for clients that come later, if the server hands it out.
    """

    beta: float
    clients: tuple[ClientPlan, ...]
    nodes: dict[int, int]
    orders: dict[int, Order]
    generator: str = ""
    files: ArrayRecord = field(default_factory=ArrayRecord)

    @property
    def real(self) -> int:
        """N, all real images."""
        return sum(client.num_examples for client in self.clients)

    @property
    def synthetic(self) -> int:
        """All synthetic images."""
        return sum(client.synthetic for client in self.clients)

    @property
    def imbalance_before(self) -> float:
        """I over the real images."""
        return _mean([(c.num_examples, c.imbalance_before) for c in self.clients])

    @property
    def imbalance_after(self) -> float:
        """I over real and synthetic images."""
        return _mean([(c.num_examples + c.synthetic, c.imbalance_after) for c in self.clients])

    def admit(self, node: int, client: ClientPlan, order: Order) -> None:
        """Take in a client that came later, or put it in the place where it was before.

        What was decided for a partition that is known already stays, and so does what it makes of
        a total that was shared out: when it comes back it is asked before it is known.
        """
        if known := self.orders.get(client.partition_id):
            client = replace(client, synthetic=known.share or client.synthetic)
        others = [other for other in self.clients if other.partition_id != client.partition_id]
        self.clients = tuple(sorted([*others, client], key=lambda c: c.partition_id))
        self.nodes[client.partition_id] = node
        self.orders.setdefault(client.partition_id, order)
        self.generator = self.generator or order.generator

    def resolve(self, settings: Settings) -> Settings:
        """Return the settings with numbers in the place of ``auto``."""
        flat = settings.to_flat()
        if settings.num_clients == "auto":  # a number stays: it is of partitions, some may be gone
            flat["num-clients"] = len(self.clients)
        if settings.beta == "auto" and self.beta:
            flat["beta"] = self.beta
        return Settings.parse(flat)

    def to_dict(self) -> dict[str, Any]:
        """Return what the run directory keeps."""
        return {
            "beta": self.beta,
            "real": self.real,
            "synthetic": self.synthetic,
            "made": sum(client.made for client in self.clients),
            "imbalance-before": self.imbalance_before,
            "imbalance-after": self.imbalance_after,
            "generator-digest": self.generator,
            "clients": [
                {key.replace("_", "-"): value for key, value in asdict(client).items()}
                for client in self.clients
            ],
        }


class _Ready(NamedTuple):
    """A client that is prepared: where it is, its part of the plan, its generator's digest."""

    node: int
    client: ClientPlan
    generator: str


class Sums(NamedTuple):
    """What one client adds up for every β asked about; `share_weight` is 0 where none is wanted."""

    partition_id: int
    num_examples: int
    synthetic: list[float]
    skew: list[float]
    share_weight: int


def prepare(
    grid: Grid,
    nodes: list[int],
    settings: Settings,
    on_client: Callable[[ClientPlan], None] | None = None,
    generator: str = "",
) -> Plan:
    """Have every client make the images it lacks and return the plan.

    Parameters
    ----------
    grid : Grid
    nodes : list of int
    settings : Settings
    on_client : callable, optional
        Called as soon as a client is done.
    generator : str
        The digest that every client's generator must have; empty: any, but the same.

    Raises
    ------
    UserError
        A client failed, or β cannot be chosen, or the generators differ.
    """
    orders = _decide(grid, nodes, settings)
    asked = {node: replace(order, generator=generator) for node, order in orders.items()}
    ready = _ask(grid, asked, settings, on_client)
    _require_different_partitions(len(ready), len(nodes))
    found = _same_generator(ready)
    return Plan(
        beta=max((order.beta for order in orders.values()), default=0.0),
        clients=tuple(one.client for one in ready.values()),
        nodes={partition: one.node for partition, one in ready.items()},
        orders={k: replace(orders[one.node], generator=found) for k, one in ready.items()},
        generator=found,
    )


def roll_call(grid: Grid, nodes: list[int], settings: Settings) -> Plan:
    """Return who is there and how many real images each has, before anything is decided."""
    requests = dict.fromkeys(nodes, messages.roll_call_request())
    replies = ask(grid, requests, messages.ROLL_CALL, settings.prepare_timeout)
    answers = [(node, read_present(reply)) for node, reply in replies]
    answers.sort(key=lambda answer: answer[1].partition_id)  # node ids are random
    present = {client.partition_id: node for node, client in answers}
    _require_different_partitions(len(present), len(nodes))
    clients = tuple(client for _, client in answers)
    return Plan(0.0, clients, present, dict.fromkeys(present, Order()))


def read_present(reply: Message) -> ClientPlan:
    """Read an answer to the roll call: a client of which nothing else is known yet.

    Raises
    ------
    UserError
        It is not what this version of the app sends.
    """
    metrics = _metrics(reply)
    with _understood(messages.ROLL_CALL):
        who, size = (fields.whole(metrics, key) for key in ("partition-id", "num-examples"))
        return ClientPlan(who, size, 0, 0, 0.0, 0.0, 0.0)


def _require_different_partitions(found: int, nodes: int) -> None:
    if found < nodes:
        raise UserError(
            f"{nodes} SuperNodes hold only {found} different partitions; give each its own "
            "partition-id."
        )


def _ask(
    grid: Grid,
    orders: dict[int, Order],
    settings: Settings,
    on_client: Callable[[ClientPlan], None] | None,
) -> dict[int, _Ready]:
    """Have the nodes prepare; return what they answered in order of partition."""
    requests = {node: messages.order_request(order) for node, order in orders.items()}
    ready: dict[int, _Ready] = {}
    for node, reply in ask(grid, requests, messages.PREPARE, settings.prepare_timeout):
        client = read_client(reply)
        ready[client.partition_id] = _Ready(node, client, messages.read_generator(reply))
        if on_client is not None:
            on_client(client)
    return dict(sorted(ready.items()))


def _same_generator(ready: dict[int, _Ready]) -> str:
    """Return the digest that all have which need a generator; empty where none does.

    Raises
    ------
    UserError
        They have different ones; names which partitions have which.
    """
    owners: dict[str, list[int]] = {}
    for partition, one in ready.items():
        if one.generator:
            owners.setdefault(one.generator, []).append(partition)
    if len(owners) > 1:
        told = "; ".join(f"{', '.join(map(str, who))} {digest}" for digest, who in owners.items())
        raise UserError(
            f"The generators of the clients differ (partitions and digests: {told}); copy one to "
            "all SuperNodes, and set generator-digest to its digest to have it checked beforehand."
        )
    return next(iter(owners), "")


def _decide(grid: Grid, nodes: list[int], settings: Settings) -> dict[int, Order]:
    """Resolve β and split T, asking the clients only where the answer depends on all of them."""
    beta = settings.beta
    if settings.policy in ("none", "full"):
        return dict.fromkeys(nodes, Order())
    if beta == "auto":
        beta = _choose_beta(grid, nodes, settings)
    if settings.policy not in budget.TOTAL_POLICIES:
        return dict.fromkeys(nodes, Order(beta=beta))
    answers = _outlook(grid, nodes, settings, [beta])
    total = sum(answer.synthetic[0] for answer in answers.values())
    weights = [answer.share_weight for answer in answers.values()]
    try:
        shares = budget.client_shares(int(total), weights)
    except ValueError as error:
        raise UserError(f"policy {settings.policy!r} cannot place its images: {error}") from error
    return {n: Order(beta, int(s)) for n, s in zip(answers, shares, strict=True)}


def _choose_beta(grid: Grid, nodes: list[int], settings: Settings) -> float:
    """Apply the paper's rule to sums over clients, as `budget.auto_beta` does to their counts."""
    betas: list[float] = []
    removed: list[float] = []
    share: list[float] = []
    while not betas or (betas[-1] < budget.MAX_AUTO_BETA and _undecided(removed, share)):
        first = betas[-1] + 2 if betas else 2.0
        ahead = (first + 2 * step for step in range(_BETAS_AT_A_TIME))
        block = [value for value in ahead if value <= budget.MAX_AUTO_BETA]
        answers = _outlook(grid, nodes, settings, [0.0, *block])
        real = sum(answer.num_examples for answer in answers.values())
        made = np.sum([answer.synthetic for answer in answers.values()], axis=0)
        skew = np.sum([answer.skew for answer in answers.values()], axis=0)
        if skew[0] == 0:
            return 2.0  # nothing to remove: every β generates nothing
        score = skew / (real + made)
        betas += block
        removed += (1 - score[1:] / score[0]).tolist()
        share += (made[1:] / (real + made[1:])).tolist()
    try:
        return budget.choose_beta(betas, removed, share)
    except ValueError as error:
        raise UserError(f"{error} Set beta to a number.") from error


def _undecided(removed: list[float], share: list[float]) -> bool:
    return max(removed) < budget.MIN_REMOVED and max(share) < budget.MAX_SYNTHETIC


def _outlook(
    grid: Grid, nodes: list[int], settings: Settings, betas: list[float]
) -> dict[int, Sums]:
    """Ask every client for its sums; answers in order of partition, as node ids are random."""
    requests = {node: messages.outlook_request(betas) for node in nodes}
    replies = ask(grid, requests, messages.OUTLOOK, settings.prepare_timeout)
    answers = [(node, read_sums(reply, len(betas))) for node, reply in replies]
    return dict(sorted(answers, key=lambda answer: answer[1].partition_id))


def read_sums(reply: Message, count: int) -> Sums:
    """Read a client's sums, one for each of so many β.

    Raises
    ------
    UserError
        They are not what this version of the app sends.
    """
    metrics = _metrics(reply)
    with _understood(messages.OUTLOOK):
        sums = Sums(
            fields.whole(metrics, "partition-id"),
            fields.whole(metrics, "num-examples"),
            fields.numbers(metrics, "synthetic", count),
            fields.numbers(metrics, "skew", count),
            fields.whole(metrics, "share-weight") if "share-weight" in metrics else 0,
        )
        if len(sums.synthetic) < count or len(sums.skew) < count:
            raise ValueError(f"it holds fewer than {count} sums")
    return sums


def read_client(reply: Message) -> ClientPlan:
    """Read a client's answer.

    Raises
    ------
    UserError
        It is not what this version of the app sends.
    """
    metrics = _metrics(reply)
    with _understood(messages.PREPARE):
        return ClientPlan(
            partition_id=fields.whole(metrics, "partition-id"),
            num_examples=fields.whole(metrics, "num-examples"),
            synthetic=fields.whole(metrics, "synthetic"),
            made=fields.whole(metrics, "made"),
            imbalance_before=fields.number(metrics, "imbalance-before"),
            imbalance_after=fields.number(metrics, "imbalance-after"),
            seconds=fields.number(metrics, "seconds"),
        )


def _metrics(reply: Message) -> MetricRecord:
    return reply.content.metric_records.get(messages.METRICS, MetricRecord())


@contextmanager
def _understood(kind: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UserError(
            f"A client's answer to {kind} cannot be used ({error}); run the same version of the "
            "app on every node."
        ) from error


def _mean(weighted: list[tuple[int, float]]) -> float:
    """Return the mean of values, weighted by sizes; 0 where there is nothing."""
    total = sum(size for size, _ in weighted)
    return sum(size * value for size, value in weighted) / total if total else 0.0
