"""The server hands the generator out, and hears whether it copies anybody's images."""

import json
import shlex
from collections import Counter
from collections.abc import Iterable
from logging import INFO, WARNING
from pathlib import Path
from typing import Final, NamedTuple

from flwr.app import Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid

from fedeas_app import fields, messages
from fedeas_app.errors import UserError
from fedeas_app.federation import ask_willing, still_connected, summarise
from fedeas_app.files import write_text
from fedeas_app.generators.federated.handout import Handout
from fedeas_app.generators.workshop import GENERATOR
from fedeas_app.settings import Settings
from fedeas_app.wording import plural

COPIES: Final = "generator-copies.json"
"""What the clients found, in the run's directory."""


MANY: Final = 0.1
"""The share of copies at one client that is told as a warning (ours): by chance it stays below."""


class Found(NamedTuple):
    """What one client found: so many images looked at, so many that copy one of its own."""

    partition_id: int
    checked: int
    copies: int

    @property
    def share(self) -> float:
        """The share of copies; 0 where there was nothing to look at."""
        return self.copies / max(1, self.checked)


def hand_out(
    grid: Grid, nodes: list[int], generator: Handout, settings: Settings, directory: Path
) -> list[int]:
    """Give every client the generator, keep what they find, and return the nodes that have it.

    A run goes on without those that fail, as in its rounds; they are asked again before the first.

    Parameters
    ----------
    grid : Grid
    nodes : list of int
        Who was there before the rounds; some may be gone by now, or back under other ids.
    generator : Handout
    settings : Settings
    directory : Path
        The run's.

    Raises
    ------
    UserError
        Fewer clients than ``min-replies`` have it. Or ``generator-max-copies`` is below 1, and a
        client's share of copies is above it, or not known.
    """
    request = messages.hand_out_request(generator.digest, generator.files)
    here, failures = still_connected(grid, settings, len(nodes)), Counter[str]()
    if (gone := len(nodes) - len(here)) > 0:
        failures["Its SuperNode is not there any more."] = gone
    asked = dict.fromkeys(here, request)
    replies = ask_willing(grid, asked, messages.HAND_OUT, settings.prepare_timeout, failures)
    found = _read(replies, settings.generator_checked, failures)
    if len(found) < settings.min_replies:
        raise UserError(f"{messages.HAND_OUT} failed: {summarise(failures)}")
    if failures:
        log(WARNING, "Some do not have the generator: %s", summarise(failures))
    by_partition = sorted(found.values())
    _note(by_partition, failures, directory / COPIES)
    _limit(by_partition, failures, settings, directory)
    return sorted(found)


def _read(
    replies: Iterable[tuple[int, Message]], most: int, failures: Counter[str]
) -> dict[int, Found]:
    """Read the answers by node; one that makes no sense counts as a failure."""
    found = {}
    for node, reply in replies:
        try:
            found[node] = read_found(reply, most)
        except UserError as error:
            failures[str(error)] += 1
    return found


def _note(found: list[Found], failures: Counter[str], path: Path) -> None:
    """Keep what each client found, and why some did not look."""
    checked, copies = (sum(numbers) for numbers in zip(*(one[1:] for one in found), strict=True))
    clients = [one._asdict() for one in found]
    content = {"checked": checked, "copies": copies, "clients": clients, "failures": failures}
    write_text(path, json.dumps(content, indent=2) + "\n")
    log(
        INFO,
        "Of %s images of the generator, %s copy one that they were held against",
        checked,
        copies,
    )
    for one in found:
        if one.share > MANY:
            log(WARNING, "At partition %s %s of %s do", *one[:1], one.copies, one.checked)


def _limit(found: list[Found], failures: Counter[str], settings: Settings, directory: Path) -> None:
    """Hold every client's share of copies against the largest that is allowed."""
    most = settings.generator_max_copies
    if most == 1:
        return
    worst = max(found, key=lambda one: one.share)
    if worst.share > most:
        raise UserError(
            f"{worst.copies} of {worst.checked} images of the generator copy training images of "
            f"partition {worst.partition_id}, but generator-max-copies is {most:g} "
            f"({directory / COPIES} has all clients); train one smaller or for fewer rounds, or "
            f"allow it: resume with a larger generator-max-copies, or {_use_elsewhere(directory)}."
        )
    if failures:
        blind = plural(failures.total(), "client has", "clients have")
        raise UserError(
            f"generator-max-copies is {most:g}, but {blind} not looked for copies: "
            f"{summarise(failures)} Resume when all can, or with generator-max-copies = 1, or "
            f"{_use_elsewhere(directory)}."
        )


def _use_elsewhere(directory: Path) -> str:
    option = shlex.quote(f"generator={directory / GENERATOR}")
    return f"use it elsewhere with --set {option}"


def read_found(reply: Message, most: int) -> Found:
    """Read a client's answer, who was to look at so many images at most.

    Raises
    ------
    UserError
        It is not what this version of the app sends.
    """
    metrics = reply.content.metric_records.get(messages.METRICS, MetricRecord())
    try:
        checked = fields.whole(metrics, "checked", most=most)
        copies = fields.whole(metrics, "copies", most=checked)
        return Found(fields.whole(metrics, "partition-id"), checked, copies)
    except ValueError as error:
        raise UserError(
            f"A client's answer to {messages.HAND_OUT} cannot be used ({error}); run the same "
            "version of the app on every node."
        ) from error
