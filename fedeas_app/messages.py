"""What travels between server and clients: the keys of every message, in one place.

Nothing about a client leaves it but what stands here: totals, never counts per class.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedeas_app import budget, fields
from fedeas_app.arrays import decode
from fedeas_app.client import Client, Order, Synthesis
from fedeas_app.client_state import Address
from fedeas_app.errors import PublicError
from fedeas_app.local import Examples

ARRAYS, METRICS, CONFIG, EXTRAS = "arrays", "metrics", "config", "extras"
STATE_LOST = "state-lost"
GENERATOR, GENERATOR_FILES = "generator-digest", "generator-files"
_MOST_BETAS: Final = 16
OUTLOOK, PREPARE, TRAIN, EVALUATE = "query.outlook", "query.prepare", "train", "evaluate"
ROLL_CALL, TRAIN_GENERATOR, HAND_OUT = "query.presence", "train.generator", "query.generator"


def outlook_request(betas: Sequence[float]) -> RecordDict:
    """Ask for sums that the server adds up before anything is generated."""
    return RecordDict({CONFIG: ConfigRecord({"betas": list(betas)})})


def outlook_answer(client: Client, msg: Message) -> MetricRecord:
    """Answer with N_k and, for every β asked about, how many images and how much skew is left."""
    betas = read_betas(msg)
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


def roll_call_request() -> RecordDict:
    """Ask who is there, where nothing has to be added up."""
    return RecordDict({CONFIG: ConfigRecord()})


def roll_call_answer(client: Client) -> MetricRecord:
    """Answer with N_k alone."""
    return MetricRecord({"partition-id": client.partition_id, "num-examples": len(client.indices)})


def order_request(order: Order, generator: ArrayRecord | None = None) -> RecordDict:
    """Tell a client what was decided for its synthesis, and hand it the generator if it is new."""
    content = RecordDict({CONFIG: _order_config(order)})
    if generator:
        content[GENERATOR_FILES] = generator
    return content


def hand_out_request(digest: str, generator: ArrayRecord) -> RecordDict:
    """Hand out the generator that the clients have trained."""
    return RecordDict({CONFIG: ConfigRecord({GENERATOR: digest}), GENERATOR_FILES: generator})


def hand_out_answer(client: Client, checked: int, copies: int) -> MetricRecord:
    """Answer with how many of its images were held against the own ones, and how many are them."""
    return MetricRecord({"partition-id": client.partition_id, "checked": checked, "copies": copies})


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


def generator_answer(client: Client, loss: float) -> MetricRecord:
    """Answer with the number of real images and the training loss; a generator has no OUI."""
    return MetricRecord(
        {
            "partition-id": client.partition_id,
            "num-examples": len(client.indices),
            "oui": 0.0,
            "loss": loss,
        }
    )


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
    """Read what the server decided for this client.

    Raises
    ------
    PublicError
        It is not what this version of the app sends; so do all that read a request.
    """
    with _understood():
        config = _config(msg)
        share, generator = fields.whole(config, "share"), fields.text(config, GENERATOR)
        return Order(fields.number(config, "beta"), share, generator)


def read_betas(msg: Message) -> list[float]:
    """Read for which β the server wants sums; a long list would let it guess at counts."""
    with _understood():
        return fields.numbers(_config(msg), "betas", _MOST_BETAS)


def read_digest(msg: Message) -> str:
    """Read the digest of a generator that is handed out."""
    with _understood():
        return fields.text(_config(msg), GENERATOR)


def read_generator_files(msg: Message) -> ArrayRecord | None:
    """Read the generator that comes with an order; None where the client has one."""
    return msg.content.array_records.get(GENERATOR_FILES)


def read_generator(reply: Message) -> str:
    """Read the digest of a prepared client's generator; empty where it needs no image.

    Raises
    ------
    UserError
        It is no text.
    """
    config = reply.content.config_records.get(CONFIG, ConfigRecord({GENERATOR: ""}))
    with _understood():
        return fields.text(config, GENERATOR)


def read_round(msg: Message) -> int:
    """Read the number of the round, from 1."""
    with _understood():
        return fields.whole(_config(msg), "server-round", 1)


def read_state(msg: Message) -> Address | None:
    """Read where the client finds what it kept; None where the strategy has it keep nothing."""
    with _understood():
        config = _config(msg)
        if "state-key" not in config:
            return None
        rounds = (fields.whole(config, key) for key in ("state-round", "state-checkpoint"))
        return Address(fields.text(config, "state-key"), *rounds)


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
    with _understood():
        extras = read_tensors(record)
        if not _fit(extras, parameters):
            raise ValueError("what comes beside the model does not fit the model")
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


def read_tensors(record: ArrayRecord) -> dict[str, torch.Tensor]:
    """Return arrays that came with a message as tensors.

    Raises
    ------
    ValueError
        One of them cannot be decoded, or is none of torch's types.
    """
    try:
        return {name: torch.from_numpy(decode(array).copy()) for name, array in record.items()}
    except TypeError as error:  # numbers that torch has no type for
        raise ValueError(f"an array cannot be a tensor ({error})") from error


@contextmanager
def _understood() -> Iterator[None]:
    try:
        yield
    except (KeyError, ValueError) as error:
        raise PublicError(
            f"A message cannot be used ({error}); run the same version of the app on every node."
        ) from error


def _fit(extras: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]) -> bool:
    return list(extras) == list(parameters) and all(
        extra.shape == like.shape and extra.dtype == like.dtype and bool(extra.isfinite().all())
        for extra, like in zip(extras.values(), parameters.values(), strict=True)
    )


def _order_config(order: Order) -> ConfigRecord:
    return ConfigRecord({"beta": order.beta, "share": order.share, GENERATOR: order.generator})


def _config(msg: Message) -> ConfigRecord:
    return msg.content.config_records.get(CONFIG, ConfigRecord())
