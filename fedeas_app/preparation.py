"""Before round 1: every client works out what it lacks and makes it; the server adds up totals."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid

from fedeas_app import budget, messages
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


@dataclass(frozen=True)
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
    """

    beta: float
    clients: tuple[ClientPlan, ...]
    nodes: dict[int, int]
    orders: dict[int, Order]

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

    def resolve(self, settings: Settings) -> Settings:
        """Return the settings with numbers in the place of ``auto``."""
        flat = settings.to_flat() | {"num-clients": len(self.clients)}
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
            "clients": [
                {key.replace("_", "-"): value for key, value in asdict(client).items()}
                for client in self.clients
            ],
        }


def prepare(
    grid: Grid,
    nodes: list[int],
    settings: Settings,
    on_client: Callable[[ClientPlan], None] | None = None,
) -> Plan:
    """Have every client make the images it lacks and return the plan.

    Parameters
    ----------
    grid : Grid
    nodes : list of int
    settings : Settings
    on_client : callable, optional
        Called as soon as a client is done.

    Raises
    ------
    UserError
        A client failed, or β cannot be chosen.
    """
    orders = _decide(grid, nodes, settings)
    requests = {node: messages.order_request(order) for node, order in orders.items()}
    done: dict[int, tuple[int, ClientPlan]] = {}
    for node, reply in ask(grid, requests, messages.PREPARE, settings.prepare_timeout):
        client = _client_plan(reply)
        done[client.partition_id] = (node, client)
        if on_client is not None:
            on_client(client)
    if len(done) < len(nodes):
        raise UserError(
            f"{len(nodes)} SuperNodes hold only {len(done)} different partitions; give each its "
            "own partition-id."
        )
    return Plan(
        beta=max((order.beta for order in orders.values()), default=0.0),
        clients=tuple(done[partition][1] for partition in sorted(done)),
        nodes={partition: done[partition][0] for partition in sorted(done)},
        orders={partition: orders[done[partition][0]] for partition in sorted(done)},
    )


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
    total = sum(_list(answer, "synthetic")[0] for answer in answers.values())
    weights = [int(_metric(answer, "share-weight")) for answer in answers.values()]
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
        real = sum(int(_metric(answer, "num-examples")) for answer in answers.values())
        made = np.sum([_list(answer, "synthetic") for answer in answers.values()], axis=0)
        skew = np.sum([_list(answer, "skew") for answer in answers.values()], axis=0)
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
) -> dict[int, Message]:
    """Ask every client for its sums; answers in order of partition, as node ids are random."""
    requests = {node: messages.outlook_request(betas) for node in nodes}
    answers = ask(grid, requests, messages.OUTLOOK, settings.prepare_timeout)
    return dict(sorted(answers, key=lambda answer: _metric(answer[1], "partition-id")))


def _client_plan(reply: Message) -> ClientPlan:
    """Read a client's answer.

    Raises
    ------
    UserError
        It is not what this version of the app sends.
    """
    try:
        return ClientPlan(
            partition_id=int(_metric(reply, "partition-id")),
            num_examples=int(_metric(reply, "num-examples")),
            synthetic=int(_metric(reply, "synthetic")),
            made=int(_metric(reply, "made")),
            imbalance_before=float(_metric(reply, "imbalance-before")),
            imbalance_after=float(_metric(reply, "imbalance-after")),
            seconds=float(_metric(reply, "seconds")),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"A client's answer to {messages.PREPARE} cannot be used ({error!r}); run the same "
            "version of the app on every node."
        ) from error


def _metric(reply: Message, key: str) -> float:
    return cast(float, reply.content.metric_records[messages.METRICS][key])


def _list(reply: Message, key: str) -> list[float]:
    return cast(list[float], reply.content.metric_records[messages.METRICS][key])


def _mean(weighted: list[tuple[int, float]]) -> float:
    """Return the mean of values, weighted by sizes; 0 where there is nothing."""
    total = sum(size for size, _ in weighted)
    return sum(size * value for size, value in weighted) / total if total else 0.0
