"""What all weighting rules share: who takes part, which replies count, the ordered average."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from logging import INFO, WARNING

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

from fedeas_app import messages, seeds
from fedeas_app.errors import UserError
from fedeas_app.federation import addressee, reason, refuse_dead_worker, summarise
from fedeas_app.preparation import Plan
from fedeas_app.settings import Settings
from fedeas_app.strategies.updates import BadReplyError, Updates


@dataclass(frozen=True)
class Participant:
    """One client's part in a round; score and weight are the server's."""

    partition: int
    num_examples: int
    oui: float
    loss: float
    score: float = 1.0
    weight: float = 0.0


@dataclass(frozen=True)
class RoundReport:
    """Who took part in a round and who failed, with the reason."""

    participants: tuple[Participant, ...]
    failures: dict[int, str] = field(default_factory=dict)

    @property
    def train_loss(self) -> float:
        """The weighted mean of the clients' training losses."""
        return sum(p.weight * p.loss for p in self.participants)

    @property
    def effective_clients(self) -> float:
        """1 / Σ w², the number of equal clients that would average as much noise away."""
        return 1.0 / sum(p.weight**2 for p in self.participants)


class WeightedAverage(Strategy):
    """A Flower strategy: a seeded cohort, checked replies, a weighted mean in partition order.

    A rule overrides :meth:`weigh` alone.

    Parameters
    ----------
    settings : Settings
    plan : Plan
        The clients and what each was told to make.
    """

    def __init__(self, settings: Settings, plan: Plan) -> None:
        self.settings = settings
        self.plan = plan
        self.reports: dict[int, RoundReport] = {}
        self._arrays = ArrayRecord()
        self._sent: list[Message] = []

    @abstractmethod
    def weigh(
        self, participants: list[Participant]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the weights, which sum to 1, and the scores behind them, shape (n,) each."""

    def cohort(self, server_round: int) -> list[int]:
        """Return this round's partitions: they depend on the seed and the round alone."""
        partitions = list(self.plan.nodes)
        size = max(1, round(self.settings.fraction_train * len(partitions)))
        rng = seeds.numpy_rng("cohort", self.settings.seed, server_round)
        return sorted(rng.choice(partitions, size, replace=False).tolist())

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Address the global model to this round's cohort."""
        self._arrays = arrays
        self._sent = [
            Message(
                messages.train_request(arrays, server_round, self.plan.orders[partition]),
                self.plan.nodes[partition],
                messages.TRAIN,
            )
            for partition in self.cohort(server_round)
        ]
        return self._sent

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average the models that count, and keep who took part.

        Raises
        ------
        UserError
            No reply of the round counts, with the reasons; or a simulation worker was killed.
        """
        with Updates(self._arrays) as updates:
            participants, failures = self._collect(replies, updates)
            self._complain(server_round, failures)
            if not participants:
                reasons = summarise(Counter(failures.values()))
                raise UserError(f"Round {server_round} has no usable reply: {reasons}")
            weights, scores = self.weigh(participants)
            arrays = updates.average(
                {p.partition: float(w) for p, w in zip(participants, weights, strict=True)}
            )
        report = RoundReport(
            tuple(
                Participant(p.partition, p.num_examples, p.oui, p.loss, float(score), float(weight))
                for p, score, weight in zip(participants, scores, weights, strict=True)
            ),
            failures,
        )
        self.reports[server_round] = report
        return arrays, MetricRecord({"train-loss": report.train_loss})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask nobody: the server has a test set, and every exchange costs a deployment seconds."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return nothing, as nobody was asked."""
        return None

    def summary(self) -> None:
        """Log what is about to run."""
        log(INFO, "\t└──> %s clients, %s a round", len(self.plan.nodes), len(self.cohort(1)))
        log(INFO, "\t└──> policy %s, seed %s", self.settings.policy, self.settings.seed)

    def _collect(
        self, replies: Iterable[Message], updates: Updates
    ) -> tuple[list[Participant], dict[int, str]]:
        """Keep the replies that count, in order of partition, and the reasons of the others."""
        partitions = {node: partition for partition, node in self.plan.nodes.items()}
        missing = {partitions[msg.metadata.dst_node_id] for msg in self._sent}
        participants: list[Participant] = []
        failures: dict[int, str] = {}
        for reply in replies:
            refuse_dead_worker(reply)
            partition = partitions[addressee(self._sent, reply)]
            missing.discard(partition)
            try:
                participants.append(_accept(partition, reply, updates))
            except BadReplyError as error:
                failures[partition] = str(error)
        late = f"no reply within {self.settings.round_timeout:g} seconds"
        failures.update(dict.fromkeys(sorted(missing), late))
        return sorted(participants, key=lambda p: p.partition), failures

    def _complain(self, server_round: int, failures: dict[int, str]) -> None:
        for text, count in Counter(failures.values()).most_common():
            who = sorted(partition for partition, given in failures.items() if given == text)
            log(
                WARNING,
                "Round %s: %s clients do not count (%s): %s",
                server_round,
                count,
                who,
                text,
            )


def _accept(partition: int, reply: Message, updates: Updates) -> Participant:
    """Check a reply and keep its model.

    Raises
    ------
    BadReplyError
        The client failed, or its reply is not what it should be.
    """
    if reply.has_error():
        raise BadReplyError(reason(reply))
    metrics = reply.content.metric_records.get(messages.METRICS, MetricRecord())
    arrays = reply.content.array_records.get(messages.ARRAYS, ArrayRecord())
    num_examples = metrics.get("num-examples")
    if type(num_examples) is not int or num_examples < 1:
        raise BadReplyError(f"num-examples is {num_examples!r}, not a whole number of at least 1")
    oui, loss = _number(metrics, "oui"), _number(metrics, "loss")
    if not 0 <= oui <= 1:
        raise BadReplyError(f"oui is {oui!r}, not between 0 and 1")
    updates.add(partition, arrays)
    return Participant(partition, num_examples, oui, loss)


def _number(metrics: MetricRecord, key: str) -> float:
    value = metrics.get(key)
    if not isinstance(value, int | float) or not np.isfinite(value):
        raise BadReplyError(f"{key} is {value!r}, not a finite number")
    return float(value)
