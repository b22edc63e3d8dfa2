"""What a scheduler is, kept in the cache.

To make one takes diffusers, which costs every process seconds and 130 MB; to read what was made of
the same origin takes none of that. Nothing but text is kept, under a digest of its origin.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from fedeas_app.errors import UserError
from fedeas_app.files import sha256, write_text
from fedeas_app.reading import read_json
from fedeas_app.store import DamagedError, load_or_build

Description = list[Any]
"""A scheduler's class and its configuration."""

FILE: Final = "description.json"


def remembered(
    cache: Path, origin: Mapping[str, Any], describe: Callable[[], Description]
) -> Description:
    """Return a description from the cache, where it is kept if it is not there yet.

    Parameters
    ----------
    cache : Path
        The cache directory. Where it cannot be written, nothing is kept.
    origin : mapping
        All that the description follows from, as JSON can say it.
    describe : callable
        Makes it; whatever it raises is raised here, and nothing kept.
    """
    target = cache / "schedulers" / _digest(origin)
    try:
        return load_or_build(target, read_description, lambda place: _fill(place, origin, describe))
    except UserError:  # of the cache, which this can do without
        return describe()


def read_description(directory: Path) -> Description:
    """Return the description in a directory that bears the digest of its origin as its name.

    Raises
    ------
    DamagedError
        It is missing, changed, or of another origin.
    """
    try:
        content = read_json(directory / FILE)
        origin, description = content["origin"], content["description"]
        is_whole = content["sha256"] == _digest([origin, description])
        is_here = directory.name == _digest(origin)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedError(str(error)) from error
    if not (is_whole and is_here):
        raise DamagedError("its content is not what its name says")
    return cast(Description, description)


def _fill(directory: Path, origin: Mapping[str, Any], describe: Callable[[], Description]) -> None:
    description = describe()
    total = _digest([origin, description])
    content = {"origin": origin, "description": description, "sha256": total}
    write_text(directory / FILE, json.dumps(content, indent=2))


def _digest(content: Any) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode())
