"""The arms of a grid, what tells them apart, and which is compared with which."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fedeas_app.comparison.cells import Cell, essence
from fedeas_app.comparison.grid import Grid, Values
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings, Value

_FIRST: Final = ("strategy", "policy", "beta", "alpha")
_BY_VALUE_ALONE: Final = ("strategy", "policy")
_SYMBOLS: Final = {"beta": "β", "alpha": "α", "oui-gamma": "γ", "oui-rho": "ρ"}


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


def design(cells: Sequence[Cell], grid: Grid) -> Design:
    """Sort cells into arms.

    Raises
    ------
    UserError
        The baseline is none of the arms, or an arm shares no seed with it.
    """
    groups = _by_arm(cells)
    varied = _varied([group[0].settings for group in groups])
    arms = [_arm(group, varied) for group in groups]
    chosen = _baselines(arms, grid.baseline) if grid.baseline else []
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


def _arm(cells: Sequence[Cell], varied: Sequence[str]) -> PlannedArm:
    settings = cells[0].settings
    has = essence(settings)
    values = {key: has[key] for key in varied if key in has}
    in_order = tuple(sorted(cells, key=lambda cell: cell.seed))
    return PlannedArm(_label(values, settings), values, in_order)


def _label(values: Values, settings: Settings) -> str:
    if not values:  # the only arm there is
        return f"{settings.strategy} {settings.policy}"
    return " ".join(
        number_text(value)
        if key in _BY_VALUE_ALONE
        else f"{_SYMBOLS.get(key, key)}={number_text(value)}"
        for key, value in values.items()
    )


def number_text(value: Value) -> str:
    """Return a value as a person writes it: 12 and not 12.0, but no digit lost."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value)


def _baselines(arms: Sequence[PlannedArm], wanted: Values) -> list[PlannedArm]:
    if "seed" in wanted:
        raise UserError("The baseline is an arm with all its seeds; leave seed out of it.")
    flat = Settings.parse(wanted).to_flat()
    expected = {key: flat[key] for key in wanted}
    chosen = [arm for arm in arms if _has(arm, expected)]
    if not chosen:
        words = ", ".join(f"{key}={value}" for key, value in wanted.items())
        labels = "; ".join(arm.label for arm in arms)
        raise UserError(f"The baseline {words} is none of the arms; they are: {labels}.")
    return chosen


def _has(arm: PlannedArm, expected: Values) -> bool:
    flat = arm.cells[0].settings.to_flat()
    return all(flat[key] == value for key, value in expected.items())


def _with_baseline(arm: PlannedArm, chosen: Sequence[PlannedArm], wanted: Values) -> PlannedArm:
    """Find the arm's counterpart: the baseline that agrees in what the baseline leaves open.

    With α varied and FedAvg as the baseline, each arm is compared with FedAvg at its own α.
    """
    if arm in chosen:
        return arm
    for other in chosen:
        open_values = {key: value for key, value in other.values.items() if key not in wanted}
        if all(arm.values.get(key) == value for key, value in open_values.items()):
            return PlannedArm(arm.label, arm.values, arm.cells, other.label)
    return arm


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
