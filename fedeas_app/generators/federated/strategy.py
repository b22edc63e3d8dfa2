"""A strategy of the classifier put to averaging generators."""

from collections.abc import Collection, Iterable
from typing import ClassVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedeas_app import messages
from fedeas_app.generators.federated.local import EMBEDDING
from fedeas_app.generators.federated.transfer import joined, moved, restored, rounded
from fedeas_app.preparation import Plan
from fedeas_app.settings import Settings
from fedeas_app.strategies.base import WeightedAverage
from fedeas_app.strategies.registry import STRATEGIES
from fedeas_app.strategies.report import RoundReport
from fedeas_app.strategies.updates import Updates


class OfGenerators(WeightedAverage):
    """What a strategy does differently with generators, to be mixed into one."""

    fraction_key: ClassVar[str] = "generator-fraction"

    def train(
        self, grid: Grid, server_round: int, arrays: ArrayRecord
    ) -> tuple[ArrayRecord, RoundReport]:
        """Go through one round; the network travels as ``generator-transfer`` says."""
        sent = rounded(arrays, self.settings.generator_transfer)
        merged, report = super().train(grid, server_round, sent)
        return (merged if sent is arrays else moved(arrays, sent, merged)), report

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask for the training of the generator."""
        sent = list(super().configure_train(server_round, arrays, config, grid))
        in_one_piece = joined(arrays, self.settings.generator_transfer)
        for msg in sent:
            msg.metadata.message_type = messages.TRAIN_GENERATOR
            msg.content[messages.ARRAYS] = in_one_piece
        return sent

    def unpacked(self, arrays: ArrayRecord) -> ArrayRecord:
        """Take the network of a reply apart again."""
        return restored(arrays, self._arrays, self.settings.generator_transfer)

    def merge(self, models: Updates, shares: dict[int, float]) -> ArrayRecord:
        """Average each label's embedding over those that moved it, where that is wanted.

        A client without a class leaves its row as it was; averaged over all, the row then moves by
        a part of what the others learnt. Which rows a client moved shows in its update anyway:
        nothing more is sent.
        """
        merged = super().merge(models, shares)
        if self.settings.generator_embeddings == "average":
            return merged
        rows = Array(_rows(models, shares, merged[EMBEDDING].numpy()))
        return ArrayRecord(dict(merged) | {EMBEDDING: rows})


def _rows(
    models: Updates, shares: dict[int, float], like: NDArray[np.generic]
) -> NDArray[np.generic]:
    """Return the embedding averaged over movers, in the shape and type of its plain average."""
    after, before = zip(*models.blocks(EMBEDDING, list(shares)), strict=True)
    count = len(shares)
    return averaged_over_movers(
        np.concatenate(before).reshape(like.shape),
        np.concatenate(after, axis=1).reshape(count, *like.shape),
        np.array(list(shares.values())),
    ).astype(like.dtype)


def averaged_over_movers(
    before: NDArray[np.float64], after: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Average every row over the clients that moved it; a row that nobody moved stays.

    Parameters
    ----------
    before : array, shape (labels, width)
        The rows that were sent out.
    after : array, shape (clients, labels, width)
        What came back.
    weights : array, shape (clients,)
        Of each client; among the movers of a row they are scaled to sum to 1.

    Returns
    -------
    array, shape (labels, width)
    """
    moved = (after != before).any(axis=2) * weights[:, None]
    total = (moved[:, :, None] * after).sum(axis=0)
    share = moved.sum(axis=0)[:, None]
    rows: NDArray[np.float64] = np.divide(total, share, out=before.copy(), where=share > 0)
    return rows


def make_strategy(settings: Settings, plan: Plan, trainable: Collection[str]) -> OfGenerators:
    """Return the strategy of ``generator-strategy`` for generators.

    Parameters
    ----------
    settings : Settings
        Those of `options.for_rounds`.
    plan : Plan
    trainable : collection of str
    """
    rule = STRATEGIES[settings.strategy]
    mixed: type[OfGenerators] = type(f"{rule.__name__}OfGenerators", (OfGenerators, rule), {})
    return mixed(settings, plan, trainable)
