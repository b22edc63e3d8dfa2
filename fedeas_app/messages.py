"""What travels between server and clients: the keys of every message, in one place.

Nothing about a client leaves it but what stands here: totals, never counts per class.
"""

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedeas_app import budget
from fedeas_app.client import Client, Order, Synthesis
from fedeas_app.client_state import Address
from fedeas_app.errors import UserError
from fedeas_app.local import Examples

ARRAYS, METRICS, CONFIG, EXTRAS = "arrays", "metrics", "config", "extras"
STATE_LOST = "state-lost"
GENERATOR = "generator-digest"
OUTLOOK, PREPARE, TRAIN, EVALUATE = "query.outlook", "query.prepare", "train", "evaluate"


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


def train_request(
    arrays: ArrayRecord,
    server_round: int,
    order: Order,
    extras: ArrayRecord | None = None,
    state: Address | None = None,
) -> RecordDict:
    """Send the global model out for a round of local training.

    With it go, where the strategy has them, its own arrays, one for each trainable parameter, and
    where the client finds the state that it kept.
    """
    config = _order_config(order)
    config["server-round"] = server_round
    if state is not None:
        config["state-key"], config["state-round"] = state.key, state.accepted
        config["state-checkpoint"] = state.checkpointed
    content = RecordDict({ARRAYS: arrays, CONFIG: config})
    if extras:
        content[EXTRAS] = extras
    return content


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


def train_answer(
    client: Client, examples: Examples, oui: float, loss: float, state_lost: bool | None
) -> MetricRecord:
    """Answer with n_k, the OUI, the training loss and, where it keeps a state, if it was lost."""
    real = len(client.indices)
    metrics = MetricRecord(
        {
            "partition-id": client.partition_id,
            "num-examples": real if client.settings.weight_by == "real" else len(examples),
            "oui": oui,
            "loss": loss,
        }
    )
    if state_lost is not None:
        metrics[STATE_LOST] = int(state_lost)
    return metrics


def evaluate_request(arrays: ArrayRecord) -> RecordDict:
    """Send the global model out to be evaluated on what a client holds out."""
    return RecordDict({ARRAYS: arrays})


def evaluate_answer(client: Client, result: Mapping[str, float]) -> MetricRecord:
    """Answer with how many images are held out, and accuracy and mean loss on them."""
    return MetricRecord(
        {
            "partition-id": client.partition_id,
            "num-examples": len(client.held_out.labels),
            "accuracy": result["accuracy"],
            "loss": result["loss"],
        }
    )


def read_order(msg: Message) -> Order:
    """Read what the server decided for this client."""
    config = _config(msg)
    beta, share = cast(float, config["beta"]), cast(int, config["share"])
    return Order(float(beta), int(share), str(config[GENERATOR]))


def read_generator(reply: Message) -> str:
    """Read the digest of a prepared client's generator; empty where it needs no image."""
    return str(reply.content.config_records.get(CONFIG, ConfigRecord()).get(GENERATOR, ""))


def read_round(msg: Message) -> int:
    """Read the number of the round, from 1."""
    return int(cast(int, _config(msg)["server-round"]))


def read_state(msg: Message) -> Address | None:
    """Read where the client finds what it kept; None where the strategy has it keep nothing."""
    config = _config(msg)
    if "state-key" not in config:
        return None
    rounds = (int(cast(int, config[key])) for key in ("state-round", "state-checkpoint"))
    return Address(str(config["state-key"]), *rounds)


def read_extras(msg: Message, parameters: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Read the strategy's own arrays, one for each trainable parameter; empty if it has none.

    Raises
    ------
    UserError
        They are not those of the parameters, or not finite.
    """
    record = msg.content.array_records.get(EXTRAS)
    if record is None:
        return {}
    extras = record.to_torch_state_dict()
    if not _fit(extras, parameters):
        raise UserError(
            "What the server sent beside the model does not fit the model; run the same version "
            "of the app on every node."
        )
    return {name: extras[name].to(like.device) for name, like in parameters.items()}


def reply(
    msg: Message,
    metrics: MetricRecord,
    arrays: ArrayRecord | None = None,
    extras: Mapping[str, torch.Tensor] | None = None,
    generator: str | None = None,
) -> Message:
    """Answer a message with metrics.

    After training with the weights and the strategy's arrays, too; after preparation with the
    generator's digest, which is empty where no image is needed.
    """
    content = RecordDict({METRICS: metrics})
    if generator is not None:
        content[CONFIG] = ConfigRecord({GENERATOR: generator})
    if arrays is not None:
        content[ARRAYS] = arrays
    if extras:
        content[EXTRAS] = ArrayRecord(dict(extras))
    return Message(content, reply_to=msg)


def _fit(extras: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]) -> bool:
    return list(extras) == list(parameters) and all(
        extra.shape == like.shape and extra.dtype == like.dtype and bool(extra.isfinite().all())
        for extra, like in zip(extras.values(), parameters.values(), strict=True)
    )


def _order_config(order: Order) -> ConfigRecord:
    return ConfigRecord({"beta": order.beta, "share": order.share, GENERATOR: order.generator})


def _config(msg: Message) -> ConfigRecord:
    return msg.content.config_records[CONFIG]
