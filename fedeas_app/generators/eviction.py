"""Room for new images: the drawers that nobody has used for longest go first.

Nothing is locked. A drawer vanishes at once, and whoever was about to read it makes its images
anew; which drawers go follows from the disk alone, so that processes evicting at the same time
choose the same ones.
"""

import time
from functools import partial
from pathlib import Path

from fedeas_app.errors import UserError
from fedeas_app.inventory import Entry, take_drawers
from fedeas_app.inventory.listing import last_read, measure
from fedeas_app.inventory.removing import Target, remove_targets

GB = 1e9

# A client reads its drawer in every round, and preparation takes a day at most unless the user
# says otherwise: a drawer that a run needs was used within this many seconds.
LIVE = 86400.0


def make_room(cache: Path, limit: float, wanted: int, filling: Path) -> None:
    """Remove the least recently used drawers, whole, until new images fit.

    Processes that fill drawers at the same time may together exceed the limit by what each of them
    is about to write.

    Parameters
    ----------
    cache : Path
        The cache directory.
    limit : float
        Bytes that all drawers together may hold; 0: no limit.
    wanted : int
        Bytes about to be written.
    filling : Path
        The drawer that they are for. It stays, and so do those used within a day.

    Raises
    ------
    UserError
        Removing all that may go would not be enough (then nothing is removed), or a drawer cannot
        be removed.
    """
    while limit:
        drawers = take_drawers(cache)
        held = sum(drawer.size for drawer in drawers)
        excess = held + wanted - limit
        if excess <= 0:
            return
        idle = [d for d in drawers if d.path.name != filling.name and _is_idle(d, d.used)]
        going = _least_recently_used(idle, excess)
        if sum(drawer.size for drawer in going) < excess:
            staying = held - sum(drawer.size for drawer in idle)
            raise UserError(_too_full(cache, limit, staying, wanted))
        _evict(going)


def _is_idle(drawer: Entry, used: float) -> bool:
    """Tell whether a drawer may go; what interrupted removals left always may."""
    return not drawer.finished or time.time() - used > LIVE


def _least_recently_used(idle: list[Entry], excess: float) -> list[Entry]:
    """Return as few as free so many bytes, leftovers first."""
    going: list[Entry] = []
    for drawer in sorted(idle, key=lambda drawer: (drawer.finished, drawer.used, drawer.key)):
        if excess <= 0:
            break
        going.append(drawer)
        excess -= drawer.size
    return going


def _evict(going: list[Entry]) -> None:
    removal = remove_targets(Target(d, d.path, partial(_is_still_idle, d)) for d in going)
    if removal.kept and not removal.removed:
        path, reason = removal.kept[0]
        raise UserError(
            f"The cached images {path} should make room under cache-limit-gb, but cannot be "
            f"removed ({reason}); let this user write there, or raise cache-limit-gb."
        )


def _is_still_idle(drawer: Entry) -> bool:
    """Ask at the last moment: a run may just have begun with this drawer."""
    written = measure(drawer.path)[1]
    return _is_idle(drawer, max(written, last_read(drawer.path) or 0.0))


def _too_full(cache: Path, limit: float, staying: int, wanted: int) -> str:
    return (
        f"The synthetic images do not fit under cache-limit-gb = {limit / GB:g}: {_text(staying)} "
        f"of those in {cache} are in use and stay, and {_text(wanted)} more are wanted; raise "
        "cache-limit-gb, or free some with fedeas cache clear --kind synthetic."
    )


def _text(size: int) -> str:
    return f"{size / GB:.3g} GB"
