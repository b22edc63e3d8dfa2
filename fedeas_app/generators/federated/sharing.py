"""The server hands the generator out, and hears whether it copies anybody's images."""

import json
from logging import INFO
from pathlib import Path
from typing import Final, NamedTuple

from flwr.app import Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid

from fedeas_app import fields, messages
from fedeas_app.errors import UserError
from fedeas_app.federation import ask
from fedeas_app.files import write_text
from fedeas_app.generators.federated.handout import Handout
from fedeas_app.settings import Settings

COPIES: Final = "generator-copies.json"
"""What the clients found, in the run's directory."""


class Found(NamedTuple):
    """What one client found: so many images looked at, so many that copy one of its own."""

    partition_id: int
    checked: int
    copies: int


def hand_out(
    grid: Grid, nodes: list[int], generator: Handout, settings: Settings, directory: Path
) -> None:
    """Give every client the generator; keep what they find, and stop where it is too much.

    Raises
    ------
    UserError
        A client failed, or the share of copies is above ``generator-max-copies``.
    """
    request = messages.hand_out_request(generator.digest, generator.files)
    replies = ask(grid, dict.fromkeys(nodes, request), messages.HAND_OUT, settings.prepare_timeout)
    found = sorted(read_found(reply) for _, reply in replies)
    checked, copies = sum(one.checked for one in found), sum(one.copies for one in found)
    content = {"checked": checked, "copies": copies, "clients": [one._asdict() for one in found]}
    write_text(directory / COPIES, json.dumps(content, indent=2) + "\n")
    log(
        INFO,
        "Of %s images of the generator, %s copy one that they were held against",
        checked,
        copies,
    )
    if copies > settings.generator_max_copies * checked:
        raise UserError(
            f"{copies} of {checked} images of the generator copy training images of the clients "
            f"({directory / COPIES} says whose), but generator-max-copies is "
            f"{settings.generator_max_copies:g}; train it smaller or for fewer rounds, or allow it."
        )


def read_found(reply: Message) -> Found:
    """Read a client's answer.

    Raises
    ------
    UserError
        It is not what this version of the app sends.
    """
    metrics = reply.content.metric_records.get(messages.METRICS, MetricRecord())
    try:
        checked = fields.whole(metrics, "checked")
        copies = fields.whole(metrics, "copies", most=checked)
        return Found(fields.whole(metrics, "partition-id"), checked, copies)
    except ValueError as error:
        raise UserError(
            f"A client's answer to {messages.HAND_OUT} cannot be used ({error}); run the same "
            "version of the app on every node."
        ) from error
