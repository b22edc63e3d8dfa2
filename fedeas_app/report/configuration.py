"""The resolved configuration as tables: what was chosen first, then the defaults."""

import json
from collections.abc import Mapping

from fedeas_app.report.parts import Table
from fedeas_app.settings import Settings, Value


def tables(values: Mapping[str, Value]) -> list[Table]:
    """Return the keys whose value is not the default, and then those that were left as they are.

    Parameters
    ----------
    values : mapping
        Keys in kebab case.
    """
    defaults = Settings.parse({}).to_flat()
    chosen = [_row(k, v, defaults[k]) for k, v in values.items() if v != defaults[k]]
    kept = [(k, _text(v), _meaning(k)) for k, v in values.items() if v == defaults[k]]
    texts = frozenset(range(4))
    return [
        Table("Differing from the default", ("key", "value", "default", "meaning"), chosen, texts),
        Table("As by default", ("key", "value", "meaning"), kept, texts),
    ]


def _row(key: str, value: Value, default: Value) -> tuple[str, ...]:
    return key, _text(value), _text(default), _meaning(key)


def _text(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False)


def _meaning(key: str) -> str:
    return (Settings.model_fields[key.replace("-", "_")].description or "").replace("`", "")
