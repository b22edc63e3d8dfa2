"""What all weighting rules share: who takes part, which replies count, the ordered average."""

import uuid
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from logging import INFO, WARNING
from typing import ClassVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

from fedeas_app import capping, clipping, compression, messages, seeds
from fedeas_app.client_state import Address, forget
from fedeas_app.errors import UserError
from fedeas_app.federation import Addressees, refuse_dead_worker
from fedeas_app.preparation import Plan
from fedeas_app.privacy import noise
from fedeas_app.settings import Settings
from fedeas_app.strategies.replies import Acceptance
from fedeas_app.strategies.report import Participant, RoundReport
from fedeas_app.strategies.state import StrategyState
from fedeas_app.strategies.updates import BadReplyError, Spread, Updates
from fedeas_app.wording import plural


class WeightedAverage(Strategy):
    """A Flower strategy: a seeded cohort, checked replies, a weighted mean in partition order.

    A rule overrides :meth:`weigh`; one with more to it also :meth:`examine`, :meth:`extras` and
    :meth:`take`, :meth:`merge`, or :meth:`step`.

    Parameters
    ----------
    settings : Settings
    plan : Plan
        The clients and what each was told to make.
    trainable : collection of str, optional
        Names of the trainable parameters; every floating-point array if left out.

    Attributes
    ----------
    has_state : bool
        Whether clients keep something from round to round.
    fraction_key : str
        The key that says how many clients a round asks.
    """

    has_state: ClassVar[bool] = False
    fraction_key: ClassVar[str] = "fraction-train"

    def __init__(
        self, settings: Settings, plan: Plan, trainable: Collection[str] | None = None
    ) -> None:
        self.settings = settings
        self.plan = plan
        self.reports: dict[int, RoundReport] = {}
        self._trainable = trainable
        self.require_clients(settings, len(self.cohort(1)))
        self._arrays = ArrayRecord()
        self._extras = ArrayRecord()
        self._sent: list[Message] = []
        # Random, not of the seed: the states of an earlier run of the same seed must not be met.
        self._state_key = uuid.uuid4().hex
        self._accepted: dict[int, int] = {}
        self._checkpointed: dict[int, int] = {}

    @classmethod
    def require_clients(cls, settings: Settings, clients: int) -> None:
        """Refuse rounds that ask fewer clients than they need.

        Raises
        ------
        UserError
        """
        if clients < settings.min_replies:
            raise UserError(
                f"min-replies is {settings.min_replies}, but only {plural(clients, 'client')} "
                f"{'is' if clients == 1 else 'are'} asked in a round; set it to {clients} at most, "
                f"or {cls.fraction_key} higher."
            )

    @abstractmethod
    def weigh(
        self, participants: list[Participant]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the weights, which sum to 1, and the scores behind them, shape (n,) each."""

    def unpacked(self, arrays: ArrayRecord) -> ArrayRecord:
        """Return a client's model, made of the arrays of its reply.

        Raises
        ------
        ValueError
            They make none.
        """
        method = self.settings.compression
        return compression.decompressed(arrays, self._arrays, self.trainable, method)

    def examine(self, participants: list[Participant], models: Updates) -> list[Participant]:
        """Add details to the participants that :meth:`weigh` needs; by default none."""
        return participants

    def extras(self) -> ArrayRecord:
        """Return what clients get beside the model, and send back in the same form; nothing."""
        return ArrayRecord()

    def take(self, extras: Updates, partitions: list[int]) -> None:
        """Work with what came back beside the models of these partitions."""

    def merge(self, models: Updates, shares: dict[int, float]) -> ArrayRecord:
        """Make one model of the clients' models, whose shares sum to 1: their weighted mean."""
        return models.average(shares)

    def step(self, server_round: int, arrays: ArrayRecord) -> ArrayRecord:
        """Turn what was made of the clients' models into the next global model: it is that."""
        return arrays

    def state(self) -> StrategyState:
        """Return what the strategy has to know beside the model to go on later."""
        accepted = {str(partition): last for partition, last in self._accepted.items()}
        return StrategyState(ArrayRecord(), {"key": self._state_key, "accepted": accepted})

    def restore(self, state: StrategyState) -> None:
        """Go on from where a strategy of the same settings was."""
        self._state_key = str(state.values["key"])
        self._accepted = {int(k): int(last) for k, last in state.values["accepted"].items()}
        self.checkpointed()

    def checkpointed(self) -> None:
        """Have clients keep their states of now, from which an interrupted run would go on."""
        self._checkpointed = dict(self._accepted)

    @property
    def trainable(self) -> list[str]:
        """Names of the trainable parameters of this round's global model."""
        wanted = self._arrays if self._trainable is None else self._trainable
        return [name for name in wanted if self._arrays[name].dtype.startswith("float")]

    def parameters(self) -> dict[str, NDArray[np.generic]]:
        """Return the trainable parameters of this round's global model, by name."""
        return {name: self._arrays[name].numpy() for name in self.trainable}

    def forget(self) -> None:
        """Remove what clients on this machine kept for the run, which is over."""
        forget(self.settings.cache_path, self._state_key)

    def cohort(self, server_round: int) -> list[int]:
        """Return this round's partitions: they depend on the seed and the round alone."""
        return draw_cohort(self.settings, self.plan.nodes, server_round)

    def train(
        self, grid: Grid, server_round: int, arrays: ArrayRecord
    ) -> tuple[ArrayRecord, RoundReport]:
        """Go through one round; return the next global model and who took part.

        A round of Flower's ``start``, which itself always begins with the first one.
        """
        log(INFO, "[ROUND %s/%s]", server_round, self.settings.rounds)
        requests = self.configure_train(server_round, arrays, ConfigRecord(), grid)
        replies = grid.send_and_receive(requests, timeout=self.settings.round_timeout)
        averaged, _ = self.aggregate_train(server_round, replies)
        return arrays if averaged is None else averaged, self.reports[server_round]

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Address the global model to this round's cohort."""
        self._arrays = arrays
        self._extras = self.extras()
        self._sent = [
            Message(
                self._request(server_round, partition), self.plan.nodes[partition], messages.TRAIN
            )
            for partition in self.cohort(server_round)
        ]
        return self._sent

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average the models that count, and keep who took part.

        With fewer usable ones than are needed the round does not count: there is no new model.

        Raises
        ------
        UserError
            A simulation worker was killed.
        """
        with Updates(self._arrays) as models, Updates(self._extras) as extras:
            participants, failures = self._collect(replies, models, extras)
            self._complain(server_round, failures)
            if len(participants) < self.needed_replies:
                self.reports[server_round] = self._failed(participants, failures)
                return None, None
            participants = self._clipped(participants, models)
            participants = self._weighed(self.examine(participants, models))
            shares = {p.partition: p.weight for p in participants}
            merged = self._hidden(server_round, self.merge(models, shares), shares)
            arrays = self.step(server_round, merged)
            spread = models.spread(shares, self.trainable)
            self.take(extras, list(shares))
        self._accepted |= dict.fromkeys(shares, server_round)
        self.reports[server_round] = _report(participants, failures, spread)
        return arrays, MetricRecord({"train-loss": self.reports[server_round].train_loss or 0.0})

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

    @property
    def needed_replies(self) -> int:
        """How many usable replies a round needs to count."""
        return self.settings.min_replies

    def declared(self) -> dict[int, int]:
        """Return n_k of each partition, as it said when it prepared."""
        both = self.settings.weight_by == "total"
        return {c.partition_id: c.num_examples + both * c.synthetic for c in self.plan.clients}

    @property
    def _keeps(self) -> bool:
        """Whether clients keep a state, be it what compression took from their updates."""
        return self.has_state or self.settings.compression != compression.NONE

    def _request(self, server_round: int, partition: int) -> RecordDict:
        rounds = (known.get(partition, 0) for known in (self._accepted, self._checkpointed))
        state = Address(self._state_key, *rounds) if self._keeps else None
        order = self.plan.orders[partition]
        return messages.train_request(self._arrays, server_round, order, self._extras, state)

    def _failed(self, usable: list[Participant], failures: dict[int, str]) -> RoundReport:
        """Report a round that has too few usable replies."""
        text = f"its reply is one of {len(usable)}, but the round needs {self.needed_replies}."
        return RoundReport((), failures | {p.partition: text for p in usable})

    def _clipped(self, participants: list[Participant], models: Updates) -> list[Participant]:
        """Limit the updates' norms, if asked to, and note each norm and its factor."""
        limit = self.settings.clip_norm
        if limit == clipping.OFF or self.settings.privacy == "local":  # clients did so themselves
            return participants
        norms = models.norms(self.trainable)
        factors = clipping.factors(norms, limit)
        models.clip(factors, self.trainable)
        return [
            _with_details(p, {"norm": norms[p.partition], "clipped-by": factors[p.partition]})
            for p in participants
        ]

    def _hidden(
        self, server_round: int, arrays: ArrayRecord, shares: dict[int, float]
    ) -> ArrayRecord:
        """Add, with ``privacy = "central"``, noise of z times what one client can change."""
        if self.settings.privacy != "central":
            return arrays
        deviation = self.settings.noise_deviation * max(shares.values())
        normal = noise.source(self.settings, "server", server_round)
        return noise.with_noise(arrays, self.trainable, deviation, normal)

    def _weighed(self, participants: list[Participant]) -> list[Participant]:
        weights, scores = self.weigh(participants)
        if self.settings.privacy == "central":  # no client may weigh more than the noise hides
            weights = np.full(len(participants), 1 / len(participants))
        weights = capping.cap(weights, self.settings.max_client_weight)
        return [
            replace(p, score=float(score), weight=float(weight))
            for p, score, weight in zip(participants, scores, weights, strict=True)
        ]

    def _collect(
        self, replies: Iterable[Message], models: Updates, extras: Updates
    ) -> tuple[list[Participant], dict[int, str]]:
        """Keep the replies that count, in order of partition, and the reasons of the others."""
        partitions = {node: partition for partition, node in self.plan.nodes.items()}
        addressee = Addressees(self._sent)
        missing = {partitions[msg.metadata.dst_node_id] for msg in self._sent}
        participants: list[Participant] = []
        failures: dict[int, str] = {}
        accept = Acceptance(
            self.declared(), models, extras, has_state=self._keeps, unpack=self.unpacked
        )
        for reply in replies:
            refuse_dead_worker(reply)
            partition = partitions[addressee(reply)]
            missing.discard(partition)
            try:
                participant = accept(partition, reply)
            except BadReplyError as error:
                failures[partition] = str(error)
            else:
                participants.append(participant)
        late = f"no reply within {self.settings.round_timeout:g} seconds"
        failures.update(dict.fromkeys(sorted(missing), late))
        return sorted(participants, key=lambda p: p.partition), failures

    def _complain(self, server_round: int, failures: dict[int, str]) -> None:
        for text, count in Counter(failures.values()).most_common():
            who = sorted(partition for partition, given in failures.items() if given == text)
            clients = plural(count, "client does", "clients do")
            log(WARNING, "Round %s: %s not count (%s): %s", server_round, clients, who, text)


def draw_cohort(settings: Settings, partitions: Collection[int], server_round: int) -> list[int]:
    """Return who of these partitions is asked in a round, in order."""
    size = cohort_size(settings, len(partitions))
    rng = seeds.numpy_rng("cohort", settings.seed, server_round)
    return sorted(rng.choice(sorted(partitions), size, replace=False).tolist())


def cohort_size(settings: Settings, clients: int) -> int:
    """Return how many of so many clients a round asks."""
    return max(1, round(settings.fraction_train * clients))


def _report(
    participants: list[Participant], failures: dict[int, str], spread: Spread
) -> RoundReport:
    drifts = spread.drifts()
    if drifts is None:
        return RoundReport(tuple(participants), failures)
    told = [_with_details(p, {"drift": drifts[p.partition]}) for p in participants]
    mean = sum(p.weight * drifts[p.partition] for p in participants)
    return RoundReport(tuple(told), failures, mean)


def _with_details(participant: Participant, more: dict[str, float]) -> Participant:
    return replace(participant, details=participant.details | more)
