"""What travels between server and clients: the keys of every message, in one place.

Nothing about a client leaves it but what stands here: totals, never counts per class.
"""

from collections.abc import Sequence
from typing import cast

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedeas_app import budget
from fedeas_app.client import Client, Order, Synthesis
from fedeas_app.local import Examples

ARRAYS, METRICS, CONFIG = "arrays", "metrics", "config"
OUTLOOK, PREPARE, TRAIN = "query.outlook", "query.prepare", "train"


def outlook_request(betas: Sequence[float]) -> RecordDict:
    """Ask for sums that the server adds up before anything is generated."""
    return RecordDict({CONFIG: ConfigRecord({"betas": list(betas)})})


def outlook_answer(client: Client, msg: Message) -> MetricRecord:
    """Answer with N_k and, for every β asked about, how many images and how much skew is left."""
    betas = cast(list[float], _config(msg)["betas"])
    sums = [budget.beta_sums(client.counts, beta) for beta in betas]
    metrics = MetricRecord(
        {
            "partition-id": client.partition_id,
            "num-examples": int(client.counts.sum()),
            "synthetic": [synthetic for synthetic, _ in sums],
            "skew": [skew for _, skew in sums],
        }
    )
    policy = client.settings.policy
    if policy in budget.TOTAL_POLICIES:
        metrics["share-weight"] = int(budget.share_weights(client.counts, policy)[0])
    return metrics


def order_request(order: Order) -> RecordDict:
    """Tell a client what was decided for its synthesis."""
    return RecordDict({CONFIG: _order_config(order)})


def train_request(arrays: ArrayRecord, server_round: int, order: Order) -> RecordDict:
    """Send the global model out for a round of local training."""
    config = _order_config(order)
    config["server-round"] = server_round
    return RecordDict({ARRAYS: arrays, CONFIG: config})


def preparation_answer(
    client: Client, order: Order, made: Synthesis, seconds: float
) -> MetricRecord:
    """Answer with totals: real, synthetic, just made, and the imbalance before and after."""
    after = client.counts + client.need(order)
    return MetricRecord(
        {
            "partition-id": client.partition_id,
            "num-examples": int(client.counts.sum()),
            "synthetic": len(made.labels),
            "made": made.made,
            "imbalance-before": float(budget.client_imbalance(client.counts)[0]),
            "imbalance-after": float(budget.client_imbalance(after)[0]),
            "seconds": seconds,
        }
    )


def train_answer(client: Client, examples: Examples, oui: float, loss: float) -> MetricRecord:
    """Answer with n_k, the OUI and the training loss."""
    real = len(client.indices)
    return MetricRecord(
        {
            "partition-id": client.partition_id,
            "num-examples": real if client.settings.weight_by == "real" else len(examples),
            "oui": oui,
            "loss": loss,
        }
    )


def read_order(msg: Message) -> Order:
    """Read what the server decided for this client."""
    config = _config(msg)
    return Order(beta=float(cast(float, config["beta"])), share=int(cast(int, config["share"])))


def read_round(msg: Message) -> int:
    """Read the number of the round, from 1."""
    return int(cast(int, _config(msg)["server-round"]))


def reply(msg: Message, metrics: MetricRecord, arrays: ArrayRecord | None = None) -> Message:
    """Answer a message with metrics and, after training, the weights."""
    content = RecordDict({METRICS: metrics})
    if arrays is not None:
        content[ARRAYS] = arrays
    return Message(content, reply_to=msg)


def _order_config(order: Order) -> ConfigRecord:
    return ConfigRecord({"beta": order.beta, "share": order.share})


def _config(msg: Message) -> ConfigRecord:
    return msg.content.config_records[CONFIG]
