"""Whether what the cache holds is what was put there."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from fedeas_app.errors import first_line
from fedeas_app.inventory.describing import shard_shape
from fedeas_app.inventory.listing import Entry, Kind, children, take
from fedeas_app.inventory.removing import Removal, Target, remove_targets
from fedeas_app.reading import read_array, read_json
from fedeas_app.store import DamagedError

_STATE = r"\d+-\d+\.safetensors"  # <partition>-<round>, as `client_state` names them


@dataclass(frozen=True)
class Damage:
    """A directory or a single shard that is not what was put there."""

    entry: Entry
    path: Path
    reason: str


def verify(cache: Path) -> list[Damage]:
    """Read everything in a cache and return what is damaged, writing nothing.

    Shards are compared with the checksum in their name, decoded datasets, partitions and unpacked
    generators with the digests stored beside them. Client states have none: their length alone is
    compared with what their header says.

    Raises
    ------
    UserError
        The cache is not a directory, or cannot be read.
    """
    finished = (entry for entry in take(cache).entries if entry.finished)
    return [damage for entry in finished for damage in _damages(entry)]


def repair(damages: Iterable[Damage]) -> Removal:
    """Remove what is still damaged; it is made anew when it is next needed."""
    return remove_targets(Target(d.entry, d.path, _still(d)) for d in damages)


def _damages(entry: Entry) -> Iterator[Damage]:
    for path, reason in _CHECKS[entry.kind](entry.path):
        if path.exists():  # else another process has just removed it
            yield Damage(entry, path, reason)


def _still(damage: Damage) -> Callable[[], bool]:
    """Ask again: whoever came first may have made it anew."""
    if damage.path != damage.entry.path:
        return lambda: _BROKEN[damage.entry.kind](damage.path) is not None
    return lambda: any(_damages(damage.entry))


def _check_dataset(path: Path) -> Iterator[tuple[Path, str]]:
    from fedeas_app.data.split import read_split

    try:
        read_split(path, verify=True)
    except DamagedError as error:
        yield path, str(error)


def _check_partition(path: Path) -> Iterator[tuple[Path, str]]:
    from fedeas_app.data import partition_digest

    try:
        indices, sizes = (read_array(path / f"{name}.npy") for name in ("indices", "sizes"))
        parts = np.split(indices, np.cumsum(sizes)[:-1])
        digest = (path / "digest.txt").read_text(encoding="utf-8")
        # The digest does not see a last size that is too large: `split` gives what there is.
        if sizes.sum() != len(indices) or partition_digest(parts) != digest:
            yield path, "the stored partition is not the one that was drawn"
    except (OSError, ValueError, TypeError) as error:
        yield path, str(error)


def _check_generator(path: Path) -> Iterator[tuple[Path, str]]:
    from fedeas_app.generators.pretrained import require_whole

    try:
        require_whole(path)
    except DamagedError as error:
        yield path, str(error)


def _check_scheduler(path: Path) -> Iterator[tuple[Path, str]]:
    from fedeas_app.generators.scheduler_memo import read_description

    try:
        read_description(path)
    except DamagedError as error:
        yield path, str(error)


def _check_files(kind: Kind, path: Path) -> Iterator[tuple[Path, str]]:
    for file in children(path):
        reason = _BROKEN[kind](file)
        if reason is not None:
            yield file, reason


def _broken_state(path: Path) -> str | None:
    """Say what is wrong with a client's state."""
    from safetensors import SafetensorError, safe_open

    if not re.fullmatch(_STATE, path.name):
        return None
    try:
        with safe_open(path, "numpy"):  # compares the length of the file with its header
            return None
    except (OSError, SafetensorError) as error:
        return first_line(error)


def _broken_shard(path: Path) -> str | None:
    """Say what is wrong with a file of a drawer."""
    from fedeas_app.generators.cache import ABOUT, is_shard, read_shard

    if path.name == ABOUT:
        return None if _is_json(path) else "it is not JSON"
    if not is_shard(path):
        return None
    _, *shape = shard_shape(path) or (0,)
    try:
        if len(shape) == 3 and read_shard(path, (shape[0], shape[1], shape[2])) is not None:
            return None
    except OSError as error:
        return str(error)
    return "its content is not what its name says"


def _is_json(path: Path) -> bool:
    try:
        read_json(path)
    except (OSError, ValueError):
        return False
    return True


_CHECKS: dict[Kind, Callable[[Path], Iterator[tuple[Path, str]]]] = {
    Kind.DATASETS: _check_dataset,
    Kind.PARTITIONS: _check_partition,
    Kind.GENERATORS: _check_generator,
    Kind.SCHEDULERS: _check_scheduler,
    Kind.SYNTHETIC: partial(_check_files, Kind.SYNTHETIC),
    Kind.CLIENT_STATES: partial(_check_files, Kind.CLIENT_STATES),
}

# For the kinds whose files are damaged and removed one by one.
_BROKEN: dict[Kind, Callable[[Path], str | None]] = {
    Kind.SYNTHETIC: _broken_shard,
    Kind.CLIENT_STATES: _broken_state,
}
