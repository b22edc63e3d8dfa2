"""The server hands the generator out, and hears whether it copies anybody's images."""

import json
import shlex
from collections import Counter
from logging import INFO, WARNING
from pathlib import Path
from typing import Final, NamedTuple

from flwr.app import Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid

from fedeas_app import fields, messages
from fedeas_app.errors import UserError
from fedeas_app.federation import ask_willing, summarise
from fedeas_app.files import write_text
from fedeas_app.generators.federated.handout import Handout
from fedeas_app.generators.workshop import GENERATOR
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
) -> list[int]:
    """Give every client the generator, keep what they find, and return the nodes that have it.

    A run goes on without those that fail, as in its rounds; they are asked again before the first.

    Raises
    ------
    UserError
        Fewer clients than ``min-replies`` have it, or the share of copies is above
        ``generator-max-copies``.
    """
    request = messages.hand_out_request(generator.digest, generator.files)
    asked, failures = dict.fromkeys(nodes, request), Counter[str]()
    replies = ask_willing(grid, asked, messages.HAND_OUT, settings.prepare_timeout, failures)
    found = {node: read_found(reply) for node, reply in replies}
    if len(found) < settings.min_replies:
        raise UserError(f"{messages.HAND_OUT} failed: {summarise(failures)}")
    if failures:
        log(WARNING, "Some do not have the generator: %s", summarise(failures))
    _note(sorted(found.values()), failures, directory / COPIES)
    _limit(list(found.values()), settings, directory)
    return sorted(found)


def _note(found: list[Found], failures: Counter[str], path: Path) -> None:
    """Keep what each client found, and why some did not look."""
    checked, copies = _totals(found)
    clients = [one._asdict() for one in found]
    content = {"checked": checked, "copies": copies, "clients": clients, "failures": failures}
    write_text(path, json.dumps(content, indent=2) + "\n")
    log(
        INFO,
        "Of %s images of the generator, %s copy one that they were held against",
        checked,
        copies,
    )


def _limit(found: list[Found], settings: Settings, directory: Path) -> None:
    checked, copies = _totals(found)
    if copies > settings.generator_max_copies * checked:
        option = shlex.quote(f"generator={directory / GENERATOR}")
        raise UserError(
            f"{copies} of {checked} images of the generator copy training images of the clients "
            f"({directory / COPIES} says whose), but generator-max-copies is "
            f"{settings.generator_max_copies:g}; train one smaller or for fewer rounds, or allow "
            "it: resume with a larger generator-max-copies, or use it elsewhere with "
            f"--set {option}."
        )


def _totals(found: list[Found]) -> tuple[int, int]:
    return sum(one.checked for one in found), sum(one.copies for one in found)


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
