"""What a run has told of each client, kept beside its record: ``privacy.json``.

Written before a round's messages go out, and never cut back: a round that is gone through again
after an interruption has told twice.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from fedeas_app.errors import UserError, first_line
from fedeas_app.files import write_text
from fedeas_app.privacy.accounting import epsilon_of
from fedeas_app.reading import read_json
from fedeas_app.settings import Settings
from fedeas_app.wording import plural

LEDGER: Final = "privacy.json"
# By how many times the largest norm one client can change what is released. The server's average:
# with its update or without. What a client sends itself: this update or any other.
_SENSITIVITY: Final = {"central": 1, "local": 2}


class Spending:
    """Counts the rounds that each client was asked in; without privacy, nothing.

    A client that is asked and does not answer counts as one that did.

    Parameters
    ----------
    settings : Settings
    directory : Path
        The run's.
    goes_on : bool
        Whether rounds were gone through already, before an interruption.

    Raises
    ------
    UserError
        The run goes on, and what it has told cannot be read.
    """

    def __init__(self, settings: Settings, directory: Path, *, goes_on: bool = False) -> None:
        self._settings = settings
        self._path = directory / LEDGER
        self._releases: Counter[int] = Counter()
        if settings.privacy != "none" and (goes_on or self._path.exists()):
            self._releases = _read(self._path)

    def note(self, partitions: Iterable[int]) -> None:
        """Count a round that is about to be gone through with these clients."""
        if self._settings.privacy == "none":
            return
        self._releases.update(partitions)
        write_text(self._path, json.dumps(self.to_dict(), indent=2) + "\n")

    def to_dict(self) -> dict[str, Any]:
        """Return ε so far and what it rests on."""
        most = max(self._releases.values(), default=0)
        return {
            "privacy": self._settings.privacy,
            "noise-multiplier": self._settings.noise_multiplier,
            **_norms(self._settings),
            "noise-source": self._settings.noise_source,
            "delta": self._settings.privacy_delta,
            "epsilon-of-a-round": spent(self._settings, 1),
            "epsilon": spent(self._settings, most),
            "releases": {str(k): count for k, count in sorted(self._releases.items())},
        }

    def summary(self) -> dict[str, Any]:
        """Return what a run's summary says: ε at δ; nothing without privacy."""
        if self._settings.privacy == "none":
            return {}
        told = self.to_dict()
        del told["releases"]
        return {"privacy": told}

    def outlook(self, cohorts: Iterable[Iterable[int]]) -> list[str]:
        """Say what all rounds with these cohorts will have cost; no line without privacy."""
        if self._settings.privacy == "none":
            return []
        ahead = self._releases.copy()
        for cohort in cohorts:
            ahead.update(cohort)
        return [_outlook(self._settings, max(ahead.values(), default=0))]


def spent(settings: Settings, releases: int) -> float | None:
    """Return ε of so many releases; None where the noise can be drawn again and hides nothing."""
    if settings.noise_source == "seed":
        return None
    multiplier = settings.noise_multiplier / _SENSITIVITY[settings.privacy]
    return epsilon_of(releases, multiplier, settings.privacy_delta)


def _norms(settings: Settings) -> dict[str, Any]:
    """Return C of all that is trained, by its key: the classifier has one, a generator its own."""
    norms: dict[str, Any] = {} if settings.generator_only else {"clip-norm": settings.clip_norm}
    if settings.trains_generator:
        norms["generator-clip-norm"] = settings.generator_clip_norm
    return norms


def _outlook(settings: Settings, most: int) -> str:
    norms = "".join(f"{key} {norm:g}, " for key, norm in _norms(settings).items())
    begin = f"Privacy ({settings.privacy}, {norms}noise-multiplier {settings.noise_multiplier:g}): "
    one, total = spent(settings, 1), spent(settings, most)
    if one is None or total is None:
        return f"{begin}none, as the noise follows from the seed; set noise-source to 'system'."
    return (
        f"{begin}ε = {one:.2f} a round, {total:.2f} for who takes part in {plural(most, 'round')}, "
        f"at δ = {settings.privacy_delta:g}. It covers the updates alone."
    )


def _read(path: Path) -> Counter[int]:
    try:
        releases = read_json(path)["releases"]
        return Counter({int(k): _count(count) for k, count in releases.items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} cannot be read ({first_line(error)}), so that what the run has told of its "
            "clients is not known; begin a new run."
        ) from error


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no number of releases")
    return value
