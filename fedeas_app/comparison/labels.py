"""What the arms of a comparison are called."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from fedeas_app.settings import Value

Values = Mapping[str, Value]

_BY_VALUE_ALONE: Final = ("strategy", "policy")
_ALWAYS: Final = (*_BY_VALUE_ALONE, "beta", "alpha")
_SYMBOLS: Final = {"beta": "β", "alpha": "α", "oui-gamma": "γ", "oui-rho": "ρ"}
_MOST: Final = 0.75


def labels(arms: Sequence[Values]) -> list[str]:
    """Return a label for each arm, such as ``fedoui fedeas β=12``.

    Parameters
    ----------
    arms : sequence of mapping
        The varied keys that matter to each arm, with its values; no two are equal.

    Returns
    -------
    list of str
        Without what is :func:`usual`, unless nothing would be left or two be called alike.
    """
    left_out = usual(arms).items()
    full = [_label(values) for values in arms]
    short = [_label({k: v for k, v in arm.items() if (k, v) not in left_out}) for arm in arms]
    chosen = [few or all_ for few, all_ in zip(short, full, strict=True)]
    return chosen if len(set(chosen)) == len(arms) else full


def usual(arms: Sequence[Values]) -> dict[str, Value]:
    """Return keys with the value that more than three quarters of the arms have that have the key.

    Strategy, policy, β and α are said in any case.
    """
    keys = dict.fromkeys(key for values in arms for key in values if key not in _ALWAYS)
    counts = {key: Counter(values[key] for values in arms if key in values) for key in keys}
    most = {key: found.most_common(1)[0] for key, found in counts.items()}
    return {k: v for k, (v, times) in most.items() if times > _MOST * counts[k].total()}


def unsaid(named: Mapping[str, Values]) -> str:
    """Say what the labels leave out, such as ``local-epochs=1``; nothing if they say all.

    Parameters
    ----------
    named : mapping of str to mapping
        The varied values of each arm, by its label.
    """
    full = [_label(values) for values in named.values()]
    return "" if full == list(named) else _label(usual(list(named.values())))


def number_text(value: Value) -> str:
    """Return a value as a person writes it: 12 and not 12.0, but no digit lost."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value)


def _label(values: Values) -> str:
    return " ".join(
        number_text(value)
        if key in _BY_VALUE_ALONE
        else f"{_SYMBOLS.get(key, key)}={number_text(value)}"
        for key, value in values.items()
    )
