"""What is to be compared, as the user writes it: what all cells share, and what is varied."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import tomli_w

from fedeas_app.errors import UserError
from fedeas_app.reading import parse_toml, read_text

Values = Mapping[str, Any]
Block = Mapping[str, Sequence[Any]]

_KEYS = ("config", "baseline", "target", "set", "grid")
_OF_THE_COMPARISON = ("output-dir", "run-name")  # it says where runs are and what they are called
_SCALARS = (bool, int, float, str)


@dataclass(frozen=True)
class Grid:
    """A comparison as it was asked for; keys and values are not checked yet.

    Attributes
    ----------
    config : str or None
        The preset or file that all cells start from.
    shared : mapping
        Keys that all cells share, over those of the preset.
    blocks : sequence of mapping
        Lists of values by key. Each block is the product of its lists, the grid is their union.
    baseline : mapping
        Keys and values that pick the arm which the others are compared with; empty for none.
    target : float or None
        Accuracy for "rounds to target".
    """

    config: str | None = None
    shared: Values = field(default_factory=dict)
    blocks: Sequence[Block] = ({},)
    baseline: Values = field(default_factory=dict)
    target: float | None = None

    def combinations(self) -> Iterator[dict[str, Any]]:
        """Yield the values of every cell, block after block; a block's win over the shared ones."""
        for block in self.blocks:
            for values in product(*block.values()):
                yield dict(self.shared) | dict(zip(block, values, strict=True))

    def with_shared(self, values: Values) -> "Grid":
        """Return the grid with more keys that all cells share.

        Raises
        ------
        UserError
            Every block gives such a key, so that it would change nothing.
        """
        for key in values:
            if all(key in block for block in self.blocks):
                raise UserError(
                    f"{key} is to be {values[key]!r} for all cells, but the grid varies it; name "
                    f"the values to compare with --vary {key}=VALUE,VALUE."
                )
        return self._but(shared=dict(self.shared) | dict(values))

    def with_varied(self, values: Block) -> "Grid":
        """Return the grid with these lists in every block, in the place of its own."""
        return self._but(blocks=[dict(block) | dict(values) for block in self.blocks])

    def with_comparison(self, baseline: Values, target: float | None) -> "Grid":
        """Return the grid with another baseline and another target, where they are given.

        Raises
        ------
        UserError
            The target is no accuracy.
        """
        return self._but(
            baseline=baseline or self.baseline,
            target=self.target if target is None else _target(target),
        )

    def with_paths(self, absolute: Callable[[str, Any], Any]) -> "Grid":
        """Return the grid with another value in the place of each."""
        return self._but(
            shared={key: absolute(key, value) for key, value in self.shared.items()},
            blocks=[
                {key: [absolute(key, value) for value in values] for key, values in block.items()}
                for block in self.blocks
            ],
            baseline={key: absolute(key, value) for key, value in self.baseline.items()},
        )

    def complete(self, base: Values) -> "Grid":
        """Return the grid with all that its preset says in itself, so that it stands alone."""
        shared = dict(base) | dict(self.shared)
        return self._but(
            config=None, shared={k: v for k, v in shared.items() if k not in _OF_THE_COMPARISON}
        )

    def to_toml(self) -> str:
        """Return the text that `read_grid` reads."""
        given = {"config": self.config, "target": self.target}
        content = {key: value for key, value in given.items() if value is not None}
        tables = {"baseline": dict(self.baseline), "set": dict(self.shared)}
        blocks = [{key: list(values) for key, values in block.items()} for block in self.blocks]
        return tomli_w.dumps(content | tables | {"grid": blocks})

    def _but(self, **changes: Any) -> "Grid":
        return Grid(**(self.__dict__ | changes))


def read_grid(path: Path) -> Grid:
    """Read a grid from a TOML file.

    Raises
    ------
    UserError
        Names what stands there and what may.
    """
    try:
        content = parse_toml(read_text(path))
    except OSError as error:
        raise UserError(f"The grid {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise UserError(f"The grid {path} is not valid TOML: {error}.") from error
    try:
        return _parse(content)
    except ValueError as error:
        raise UserError(f"The grid {path} {error}.") from None


def _parse(content: Values) -> Grid:
    if not content:
        raise ValueError(
            "is empty; write what is to be compared below [[grid]], a list of values for each key"
        )
    unknown = sorted(set(content) - set(_KEYS))
    if unknown:
        raise ValueError(
            f"has {', '.join(map(repr, unknown))} at its top level, where {', '.join(_KEYS)} may "
            "stand; what all cells share goes below [set], what is varied below [[grid]]"
        )
    return Grid(
        config=_config(content.get("config")),
        shared=_table("set", content.get("set", {})),
        blocks=_blocks(content.get("grid", [{}])),
        baseline=_table("baseline", content.get("baseline", {})),
        target=_target(content.get("target")),
    )


def _config(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"has config = {value!r}; the name of a preset or a file is allowed")
    return value


def _target(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        hint = _as_share(value)
        raise UserError(
            f"The target is {value!r}; an accuracy above 0 and up to 1 is allowed{hint}."
        )
    return float(value)


def _as_share(value: Any) -> str:
    """Say how a number of per cent is written, if a number may be that."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 < value <= 100:
        return ""
    return f": write {value / 100:g} for {value:g} %"


def _table(name: str, content: Any) -> Values:
    if not isinstance(content, dict) or not all(isinstance(v, _SCALARS) for v in content.values()):
        raise ValueError(f"has a {name} that is not a table of single values, {name}.KEY = VALUE")
    return content


def _blocks(content: Any) -> list[Block]:
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise ValueError("has a grid that is not a list of tables; write [[grid]] above each")
    if not content:
        raise ValueError("has no [[grid]], hence nothing to compare")
    return [{key: _list(key, values) for key, values in block.items()} for block in content]


def _list(key: str, values: Any) -> list[Any]:
    listed = values if isinstance(values, list) else [values]
    if not listed or not all(isinstance(value, _SCALARS) for value in listed):
        raise ValueError(f"varies {key} over {values!r}; a value or a list of values is allowed")
    return listed
