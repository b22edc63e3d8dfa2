"""The arms of a grid, what tells them apart, and which is compared with which."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fedeas_app.comparison.cells import Cell, Resolve, essence, matters, resolved
from fedeas_app.comparison.grid import Grid, Values
from fedeas_app.comparison.labels import labels
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings, Value

_FIRST: Final = ("strategy", "policy", "beta", "alpha")


@dataclass(frozen=True)
class PlannedArm:
    """Cells that differ in nothing but their seed; the fields are those of `reading.Arm`."""

    label: str
    values: dict[str, Value]
    cells: tuple[Cell, ...]
    baseline: str | None = None

    @property
    def seeds(self) -> set[int]:
        """The seeds of its cells."""
        return {cell.seed for cell in self.cells}


@dataclass(frozen=True)
class Design:
    """Arms, and how they are to be compared; the fields are those of `reading.Comparison`."""

    arms: tuple[PlannedArm, ...]
    baseline: str | None
    target: float | None
    varied: tuple[str, ...]

    @property
    def cells(self) -> list[tuple[PlannedArm, Cell]]:
        """All cells, seed after seed: a comparison that is broken off is still a comparison."""
        pairs = [(arm, cell) for arm in self.arms for cell in arm.cells]
        return sorted(pairs, key=lambda pair: pair[1].seed)

    @property
    def seeds(self) -> set[int]:
        """The seeds of all arms."""
        return set().union(*(arm.seeds for arm in self.arms))


def design(cells: Sequence[Cell], grid: Grid, resolve: Resolve = Settings.parse) -> Design:
    """Sort cells into arms.

    Parameters
    ----------
    cells : sequence of Cell
    grid : Grid
    resolve : callable
        From keys and values to settings, as for the cells.

    Raises
    ------
    UserError
        The baseline is none of the arms, or an arm shares no seed with it.
    """
    groups = _by_arm(cells)
    varied = _varied([group[0].settings for group in groups])
    arms = _arms(groups, varied)
    chosen = _baselines(arms, grid.baseline, resolve) if grid.baseline else []
    arms = [_with_baseline(arm, chosen, grid.baseline) for arm in arms]
    _require_pairs(arms, chosen)
    _require_shared_seeds(arms)
    only = chosen[0].label if len(chosen) == 1 else None
    return Design(tuple(arms), only, grid.target, varied)


def _by_arm(cells: Sequence[Cell]) -> list[list[Cell]]:
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        key = frozenset((k, v) for k, v in essence(cell.settings).items() if k != "seed")
        groups.setdefault(key, []).append(cell)
    return list(groups.values())


def _varied(arms: Sequence[Settings]) -> tuple[str, ...]:
    """Return the keys in which arms differ; one that matters to a single arm tells nothing."""
    seen: dict[str, set[Value]] = {}
    for settings in arms:
        for key, value in essence(settings).items():
            seen.setdefault(key, set()).add(value)
    keys = [key for key, values in seen.items() if len(values) > 1 and key != "seed"]
    return tuple(sorted(keys, key=lambda k: _FIRST.index(k) if k in _FIRST else len(_FIRST)))


def _arms(groups: Sequence[Sequence[Cell]], varied: Sequence[str]) -> list[PlannedArm]:
    values = [_values(cells[0].settings, varied) for cells in groups]
    return [
        PlannedArm(label or _only(cells[0].settings), own, _in_order(cells))
        for label, own, cells in zip(labels(values), values, groups, strict=True)
    ]


def _values(settings: Settings, varied: Sequence[str]) -> dict[str, Value]:
    has = essence(settings)
    return {key: resolved(key, settings) for key in varied if key in has}


def _only(settings: Settings) -> str:
    """Name the only arm there is."""
    return f"{settings.strategy} {settings.policy}"


def _in_order(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    return tuple(sorted(cells, key=lambda cell: cell.seed))


def _baselines(arms: Sequence[PlannedArm], wanted: Values, resolve: Resolve) -> list[PlannedArm]:
    """Return the arms that the baseline means: rather those to which all of its keys matter.

    β = 2 means "fedeas β=2" and not also "none"; where "none" is asked for, it may say β.
    """
    if "seed" in wanted:
        raise UserError("The baseline is an arm with all its seeds; leave seed out of it.")
    Settings.parse(wanted)
    alike = [arm for arm in arms if _has(arm, wanted, resolve)]
    mattering = [sum(matters(key, _settings(arm)) for key in wanted) for arm in alike]
    most = max(mattering, default=0)
    if most == 0:
        words = ", ".join(f"{key}={value}" for key, value in wanted.items())
        labels = "; ".join(arm.label for arm in arms)
        raise UserError(f"The baseline {words} is none of the arms; they are: {labels}.")
    return [arm for arm, number in zip(alike, mattering, strict=True) if number == most]


def _has(arm: PlannedArm, wanted: Values, resolve: Resolve) -> bool:
    """Tell whether these values would change nothing about an arm."""
    settings = _settings(arm)
    try:
        other = resolve(settings.to_flat() | dict(wanted))
    except UserError:  # they contradict its other values
        return False
    return essence(other) == essence(settings)


def _settings(arm: PlannedArm) -> Settings:
    return arm.cells[0].settings


def _with_baseline(arm: PlannedArm, chosen: Sequence[PlannedArm], wanted: Values) -> PlannedArm:
    """Find the arm's counterpart: the baseline that agrees in what the baseline leaves open.

    With α varied and FedAvg as the baseline, each arm is compared with FedAvg at its own α. What
    does not matter to the arm need not agree, if that leaves but one.
    """
    if arm in chosen:
        return arm
    alike = [other for other in chosen if _agrees(arm, other, wanted)]
    ours = essence(_settings(arm)).keys()
    exact = [other for other in alike if _left_open(other, wanted) <= ours]
    found = exact or alike
    return replace(arm, baseline=found[0].label) if len(found) == 1 else arm


def _agrees(arm: PlannedArm, other: PlannedArm, wanted: Values) -> bool:
    ours, theirs = essence(_settings(arm)), essence(_settings(other))
    return all(ours[key] == theirs[key] for key in _left_open(other, wanted) & ours.keys())


def _left_open(other: PlannedArm, wanted: Values) -> set[str]:
    return other.values.keys() - wanted.keys()


def _require_pairs(arms: Sequence[PlannedArm], chosen: Sequence[PlannedArm]) -> None:
    if chosen and len(arms) > 1 and not any(arm.baseline for arm in arms):
        labels = "; ".join(arm.label for arm in chosen)
        raise UserError(
            f"The baseline means several arms ({labels}), and no other arm is like one of them in "
            "the rest; add keys to it."
        )


def _require_shared_seeds(arms: Sequence[PlannedArm]) -> None:
    seeds = {arm.label: arm.seeds for arm in arms}
    alone = [arm for arm in arms if arm.baseline and not arm.seeds & seeds[arm.baseline]]
    if alone:
        words = "; ".join(f"{arm.label} and its baseline {arm.baseline}" for arm in alone)
        raise UserError(
            f"These share no seed, so that they cannot be compared in pairs: {words}; give the "
            "blocks of the grid the same seeds."
        )
