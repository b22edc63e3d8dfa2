"""``fedeas plan``: what a run would generate, without generating or training."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.table import Table

from fedeas_app import budget
from fedeas_app.commands.configuration import ConfigArgument, SetOption, load_settings
from fedeas_app.commands.console import err, one_sentence, out
from fedeas_app.errors import UserError
from fedeas_app.forecast import Counts, Forecast, forecast, read_counts
from fedeas_app.settings import AUTO, OWN, Settings
from fedeas_app.wording import duration, plural

if TYPE_CHECKING:
    from fedeas_app.generators.federated.cost import Cost

_SHOWN = 40


@one_sentence
def plan(
    config: ConfigArgument = None,
    overrides: SetOption = None,
    counts: Annotated[
        Path | None,
        typer.Option(
            help="A CSV file of counts instead of a dataset: a row for each client, a column for "
            "each class."
        ),
    ] = None,
    data_path: Annotated[
        Path | None, typer.Option(help='With dataset = "own": where the images of this site are.')
    ] = None,
    beta: Annotated[str | None, typer.Option(help="β, a number or `auto`.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print how many images each client would make, and what every policy would cost."""
    extra = [f"beta={beta}"] if beta is not None else []
    settings = load_settings(config, [*(overrides or []), *extra])
    result = forecast(_counts(settings, counts, data_path), settings.policy, settings.beta)
    priced = settings.trains_generator and counts is None  # a table says nothing of image sizes
    price = _price(settings, result) if priced else None
    if as_json:
        more = {} if price is None else {"generator": price.to_dict()}
        typer.echo(json.dumps(result.to_dict() | more, indent=2))
        return
    show(result, _remarks(settings, data_path) if counts is None else [])
    if price is not None:
        for sentence in _told(price, settings, result, alone=data_path is not None):
            out.print(sentence, soft_wrap=True)


def _price(settings: Settings, result: Forecast) -> "Cost":
    """Return what training the generator costs; a few steps are timed on this machine."""
    from fedeas_app.data import classes_and_shape
    from fedeas_app.generators.federated.cost import estimate

    classes, shape = classes_and_shape(settings)
    with err.status("timing a few steps of the generator"):
        return estimate(settings, shape, len(classes), result.counts.sum(axis=1).tolist())


def _told(price: "Cost", settings: Settings, result: Forecast, *, alone: bool) -> list[str]:
    """Return in words what the generator costs all clients, or one site alone."""
    when = "at this site" if alone else "all in turn"
    return [
        _training(price, settings, alone=alone),
        _pooling(price, alone=alone),
        *_searching(price, when),
        *_drawing(price, result, when),
    ]


def _training(price: "Cost", settings: Settings, *, alone: bool) -> str:
    where = (
        "at this site with this machine's speed."
        if alone
        else "at the client with the most images if all have this machine's speed, "
        f"{duration(price.total_seconds)} for all in turn."
    )
    return (
        f"The generator ({price.parameters:,} parameters) is trained first, in "
        f"{settings.generator_rounds} rounds: {price.client_bytes / 1e6:,.0f} MB to and from each "
        f"client; about {duration(price.longest_seconds)} {where}"
    )


def _pooling(price: "Cost", *, alone: bool) -> str:
    whose = "this site alone" if alone else "all clients together"
    return (
        f"Pooling the clients' images would move {price.pooled_bytes / 1e6:,.1f} MB once, of "
        f"{whose}: what the rounds buy is that no image moves."
    )


def _searching(price: "Cost", when: str) -> list[str]:
    """Say how long it takes to draw what is searched for copies; nothing where none is."""
    count = price.checked_images
    if not count:
        return []
    seconds = duration(count * price.image_seconds)
    return [f"The search for copies draws {plural(count, 'image')}: about {seconds}, {when}."]


def _drawing(price: "Cost", result: Forecast, when: str) -> list[str]:
    """Say how long drawing takes, and how long for full balancing; nothing where none is drawn."""
    if not result.synthetic:
        return []
    full = result.totals["full"]
    totals = {f"policy {result.policy}": result.synthetic}
    totals |= {} if full is None else {"policy full": full}
    told = [
        f"{duration(count * price.image_seconds)} for the {count:,} of {name}"
        for name, count in totals.items()
    ]
    return [f"Drawing images then takes about {', '.join(told)}, {when}."]


def _counts(settings: Settings, counts: Path | None, data_path: Path | None) -> Counts:
    if counts is not None:
        return read_counts(counts)
    return label_counts(settings) if data_path is None else site_counts(settings, data_path)


def _remarks(settings: Settings, data_path: Path | None) -> list[str]:
    from fedeas_app.data.remarks import empty_folders

    if data_path is None:
        return poor_clients(settings)
    return empty_folders(settings.reading(str(data_path.expanduser().absolute())))


def site_counts(settings: Settings, data_path: Path) -> Counts:
    """Return n_k^c of one site with data of its own, shape (1, C).

    Raises
    ------
    UserError
        The settings are not for such a site, or its plan depends on the others.
    """
    from fedeas_app import data

    if settings.dataset != OWN:
        raise UserError(f"--data-path is for dataset {OWN!r}, but it is {settings.dataset!r}.")
    if settings.beta == AUTO or settings.policy in budget.TOTAL_POLICIES:
        raise UserError(
            f"With policy {settings.policy!r} and beta {settings.beta!r} the plan of one site "
            "depends on all others; give --counts a table of all."
        )
    train = data.load_own(settings, data_path.expanduser().absolute(), "train")
    return np.bincount(train.labels, minlength=len(train.class_names))[None, :]


def label_counts(settings: Settings) -> Counts:
    """Return n_k^c of the clients that a simulation of these settings would have.

    Raises
    ------
    UserError
        Every SuperNode has data of its own, so that there is nothing to simulate.
    """
    from fedeas_app import data

    if settings.dataset == OWN:
        raise UserError(
            f"dataset is {OWN!r}: the images are at the SuperNodes, and this machine has none to "
            "plan or simulate with; name a dataset, or a site's images with `fedeas plan "
            "--data-path`."
        )
    train = data.load_split(settings, "train")
    parts = data.partition(train.labels, int(settings.num_clients), settings)
    return data.observed_counts(train.labels, parts, len(train.class_names), settings)


def poor_clients(settings: Settings) -> list[str]:
    """Return in words which clients have wrong labels or few images, and which classes none."""
    from fedeas_app.data.remarks import remarks

    return remarks(int(settings.num_clients), settings)


def show(result: Forecast, remarks: Sequence[str] = ()) -> None:
    """Print the plan: a row a client (the first ones), then remarks on clients and the totals."""
    out.print(_clients(result))
    if len(result.counts) > _SHOWN:
        more = plural(len(result.counts) - _SHOWN, "more client")
        out.print(f"... and {more} (all with --json)")
    for remark in remarks:
        out.print(remark, soft_wrap=True)
    real, synthetic = int(result.counts.sum()), result.synthetic
    share = synthetic / (real + synthetic) if synthetic else 0.0
    beta = "" if result.policy in ("none", "full") else f", β = {result.beta:g}"
    out.print(
        f"\nPolicy {result.policy}{beta}: {synthetic:,} synthetic for {real:,} real "
        f"images ({share:.1%} of all); "
        f"imbalance {result.imbalance_before:.3f} → {result.imbalance_after:.3f}.",
        soft_wrap=True,
    )
    if not synthetic:
        out.print("No synthetic image at all: training uses real images alone.")
    out.print(_policies(result))


def _clients(result: Forecast) -> Table:
    table = Table("client", "real", "classes", "synthetic", "imbalance", "after", box=None)
    for column in table.columns:
        column.justify = "right"
    shown = slice(_SHOWN)
    counts, made = result.counts[shown], result.allocation[shown]
    before, after = budget.client_imbalance(counts), budget.client_imbalance(counts + made)
    for k, (real, new) in enumerate(zip(counts, made, strict=True)):
        table.add_row(
            str(k), f"{real.sum():,}", f"{(real > 0).sum()} of {len(real)}", f"{new.sum():,}",
            f"{before[k]:.3f}", f"{after[k]:.3f}",
        )  # fmt: skip
    return table


def _policies(result: Forecast) -> Table:
    table = Table("policy", "synthetic images", box=None)
    table.columns[1].justify = "right"
    for policy, total in result.totals.items():
        shown = "cannot be placed" if total is None else f"{total:,}"
        table.add_row(policy, shown, style="bold" if policy == result.policy else None)
    return table
