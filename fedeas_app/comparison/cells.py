"""The cells of a grid: the settings of each, whether they differ at all, and their names."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from fedeas_app.comparison.grid import Grid, Values
from fedeas_app.comparison.reading import CELLS
from fedeas_app.errors import UserError
from fedeas_app.generators.registry import POOL
from fedeas_app.settings import AUTO, OWN, Settings, Value
from fedeas_app.wording import in_one_line, plural

PLACES: Final = (
    "output-dir", "run-name", "cache-dir", "cache-limit-gb", "tracker", "prepare-timeout",
    "round-timeout", "max-failed-rounds", "checkpoint-every", "resume",
    "generator-samples-every",
)  # fmt: skip
_SHOWN = 3
_WITH_OUI = ("fedoui", "fedoui-fedalign")
_WITH_AGREEMENT = ("fedalign", "fedoui-fedalign")
_WITH_SERVER_STEP = ("fedavgm", "fedadam", "fedyogi")
_WITH_SECOND_MOMENT = ("fedadam", "fedyogi")

Resolve = Callable[[Values], Settings]


@dataclass(frozen=True)
class Cell:
    """One run of a grid.

    Attributes
    ----------
    name : str
        Of its directory; two cells that compute the same have the same name.
    settings : Settings
        With the name and the place of its record.
    """

    name: str
    settings: Settings

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.settings.seed

    @property
    def directory(self) -> Path:
        """Where its record is."""
        return self.settings.output_path / self.name

    def resumed(self) -> "Cell":
        """Return the cell as a run that goes on from its last checkpoint."""
        return replace(self, settings=Settings.parse(self.settings.to_flat() | {"resume": True}))

    def has_settings(self, other: Settings) -> bool:
        """Tell whether a record's settings are this cell's, wherever it lies."""
        own, found = essence(self.settings), essence(other)
        if self.settings.beta == "auto":  # the record says what it came to
            found["beta"] = "auto"
        return own == found


def make_cells(grid: Grid, base: Values, resolve: Resolve, directory: Path) -> list[Cell]:
    """Return every cell of a grid once, in its order.

    Parameters
    ----------
    grid : Grid
    base : mapping
        The preset that all cells start from.
    resolve : callable
        From keys and values to settings.
    directory : Path
        Of the comparison.

    Raises
    ------
    UserError
        Names every key that is unknown or cannot be varied and every impossible value, and the
        cells that it is in.
    """
    _refuse_places(grid)
    places = {"output-dir": str(directory / CELLS), "run-name": ""}
    problems: dict[str, list[str]] = {}
    cells: dict[str, Cell] = {}
    total = 0
    for values in grid.combinations():
        total += 1
        try:
            cell = _cell(_simulated(resolve(dict(base) | values | places)))
            cells.setdefault(cell.name, cell)
        except UserError as error:
            for sentence in map(str, error.args):
                problems.setdefault(sentence, []).append(_words(values, grid.shared))
    if problems:
        raise UserError(*(_sentence(*problem, total) for problem in problems.items()))
    return list(cells.values())


def matters(key: str, settings: Settings) -> bool:
    """Tell whether a key can change anything about a run of these settings.

    β does not without synthesis and for full balancing, for example, so that cells which differ in
    nothing else are one.
    """
    condition = _MATTERS.get(key)
    return condition is None or condition(settings)


def essence(settings: Settings) -> dict[str, Value]:
    """Return the keys that decide the numbers of a run, with their values.

    A value that "auto" comes to is "auto", so that both ways to say it are one.
    """
    flat = _with_auto(settings)
    return {k: v for k, v in flat.items() if k not in PLACES and matters(k, settings)}


def resolved(key: str, settings: Settings) -> Value:
    """Return the value of a key, and what it comes to where it is "auto"."""
    come_to = _COME_TO.get(key)
    return settings.to_flat()[key] if come_to is None else come_to(settings)


def _with_auto(settings: Settings) -> dict[str, Value]:
    flat = settings.to_flat()
    for key, come_to in _COME_TO.items():
        if come_to(settings) == come_to(Settings.parse(flat | {key: AUTO})):
            flat[key] = AUTO
    return flat


def _simulated(settings: Settings) -> Settings:
    """Refuse what no simulation has, before hours of cells fail one by one."""
    if settings.dataset == OWN:
        raise UserError(
            f"dataset is {OWN!r}, but a comparison runs in simulation, where there are no "
            "SuperNodes with data of their own; name a dataset."
        )
    if settings.generator_only:
        raise UserError(
            "generator-only is true, but a comparison is of the rounds after it; leave it out."
        )
    return settings


def _cell(settings: Settings) -> Cell:
    plain = _without_effectless(settings)
    name = f"{plain.strategy}-{plain.policy}-s{plain.seed}-{_digest(plain)}"
    return Cell(name, Settings.parse(plain.to_flat() | {"run-name": name}))


def _without_effectless(settings: Settings) -> Settings:
    """Give keys that do not matter their defaults, so that what is equal looks equal."""
    flat = _with_auto(settings)
    return Settings.parse({k: v for k, v in flat.items() if k in PLACES or matters(k, settings)})


def _digest(settings: Settings) -> str:
    """Return 8 hexadecimal digits of what differs from the defaults.

    Not of all keys: a version that adds one would not find the cells of an earlier one again.
    """
    defaults = Settings.parse({}).to_flat()
    chosen = {k: v for k, v in essence(settings).items() if v != defaults[k]}
    return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:8]


def _refuse_places(grid: Grid) -> None:
    varied = {key for block in grid.blocks for key in block} & set(PLACES)
    if varied:
        raise UserError(
            f"{', '.join(sorted(varied))} cannot be varied: no result depends on it, and the "
            "comparison names its runs itself; set it for all cells, or leave it out."
        )
    if "run-name" in grid.shared:
        raise UserError("run-name cannot be set: the comparison names its runs itself.")


def _sentence(problem: str, where: list[str], total: int) -> str:
    if len(where) == total:
        return problem
    left = len(where) - _SHOWN
    more = f" and {plural(left, 'more cell')}" if left > 0 else ""
    return f"{problem.rstrip('.')} (in {'; '.join(where[:_SHOWN])}{more})."


def _words(values: Values, shared: Values) -> str:
    """Name a cell by what it does not share with all."""
    own = {key: value for key, value in values.items() if shared.get(key) != value}
    return ", ".join(
        f"{in_one_line(key)}={in_one_line(value)}" for key, value in (own or values).items()
    )


def _only(key: str, values: Iterable[Any]) -> Callable[[Settings], bool]:
    allowed = tuple(values)
    return lambda settings: getattr(settings, key) in allowed


def _with_synthesis(settings: Settings) -> bool:
    return settings.policy != "none"


def _with_generator(settings: Settings) -> bool:
    return _with_synthesis(settings) and settings.generator != POOL


def _with_pool(settings: Settings) -> bool:
    return _with_synthesis(settings) and settings.generator == POOL


def _with_training(settings: Settings) -> bool:
    return settings.trains_generator


def _with_privacy(settings: Settings) -> bool:
    return settings.privacy != "none"


def _rule_of(allowed: Collection[str]) -> Callable[[Settings], bool]:
    """Ask for the strategy, be it that of the generator."""
    return lambda settings: (
        settings.strategy in allowed
        or (settings.trains_generator and settings.generator_strategy in allowed)
    )


_COME_TO: Final[dict[str, Callable[[Settings], float]]] = {
    "proximal-mu": lambda settings: settings.mu,
    "server-learning-rate": lambda settings: settings.server_step,
}
_MATTERS: Final[dict[str, Callable[[Settings], bool]]] = {
    "alpha": _only("partitioner", ["dirichlet"]),
    "classes-per-client": _only("partitioner", ["classes"]),
    "noise-rate": lambda settings: settings.noisy_fraction > 0,
    "rare-cap": lambda settings: settings.rare_fraction > 0,
    "norm": _only("model", ["resnet18"]),
    "scaffold-option": _only("strategy", ["scaffold"]),
    "scaffold-weights": _only("strategy", ["scaffold"]),
    "moon-mu": _only("strategy", ["moon"]),
    "moon-temperature": _only("strategy", ["moon"]),
    "align-epsilon": _rule_of(_WITH_AGREEMENT),
    "server-learning-rate": _rule_of(_WITH_SERVER_STEP),
    "server-momentum": _rule_of(_WITH_SERVER_STEP),
    "server-decay": _rule_of(_WITH_SECOND_MOMENT),
    "server-tau": _rule_of(_WITH_SECOND_MOMENT),
    "trim-fraction": _rule_of(["fedtrimmedavg"]),
    "malicious-clients": _rule_of(["krum", "multikrum"]),
    "krum-selected": _rule_of(["multikrum"]),
    "noise-multiplier": _with_privacy,
    "privacy-delta": _with_privacy,
    "noise-source": _with_privacy,
    "oui-epsilon": _only("strategy", _WITH_OUI),
    "oui-rho": _only("strategy", _WITH_OUI),
    "oui-gamma": _only("strategy", _WITH_OUI),
    "oui-window": _only("strategy", _WITH_OUI),
    "oui-smoothing": _only("strategy", _WITH_OUI),
    # Clients record their OUI under every strategy, but only FedOUI does anything with it.
    "oui-layers": _only("strategy", _WITH_OUI),
    "oui-probe-size": _only("strategy", _WITH_OUI),
    "min-partition-size": _only("partitioner", ["dirichlet", "classes"]),
    "weight-by": _with_synthesis,
    "pool-dataset": _with_pool,
    "beta": lambda settings: settings.policy not in ("none", "full"),
} | dict.fromkeys(
    (
        "generator", "generator-revision", "generator-classes", "generator-prompt",
        "generator-digest",
    ),
    _with_synthesis,
) | dict.fromkeys(
    (
        "sampler", "sampler-steps", "guidance-scale", "generation-precision",
        "generation-batch-size",
    ),
    _with_generator,
) | dict.fromkeys(
    (
        "generator-rounds", "generator-epochs", "generator-batch-size", "generator-fraction",
        "generator-strategy", "generator-mu", "generator-embeddings", "generator-ema",
        "generator-preset", "generator-unshuffle", "generator-label-dropout",
        "generator-learning-rate", "generator-transfer", "generator-checked",
        "generator-max-copies", "generator-clip-norm",
    ),
    _with_training,
)  # fmt: skip
