"""The machine: cores, memory, and room on the disks that a run writes to."""

import os
import shutil
import tempfile
from pathlib import Path

import psutil

from fedeas_app.diagnosis.findings import Finding, examined, ok, problem, warning
from fedeas_app.files import cannot_write
from fedeas_app.processes import cores
from fedeas_app.settings import Settings

_CGROUP = Path("/sys/fs/cgroup")  # version 2, as a container sees its own
_GB = 1e9
_LITTLE_DISK = 1e9  # bytes
# docs/performance.md, "Memory": a worker with its clients, and all that there is beside workers.
_WORKER, _BESIDE = 0.55e9, 1.3e9


def look_at_machine(settings: Settings | None, cgroup: Path = _CGROUP) -> list[Finding]:
    """Return what a run has of this machine; its places only where they are known."""
    found = [_cores(cgroup), examined("memory", "", lambda: _memory(settings, cgroup))]
    if settings is None:
        return found
    places = {"cache-dir": settings.cache_dir, "output-dir": settings.output_dir}
    return found + [_place(key, value) for key, value in places.items()]


def _cores(cgroup: Path) -> Finding:
    usable, total = cores(), os.cpu_count() or 1
    found = f"{usable} of {total} usable"
    quota = _quota(cgroup)
    if quota is None or quota >= usable:
        return ok("cores", found)
    return warning(
        "cores", f"{found}, but limited to the time of {quota:g}",
        "A run starts workers for the usable ones; give the container cores (--cpuset-cpus) in the "
        "place of time (--cpus), or set threads higher.",
    )  # fmt: skip


def _memory(settings: Settings | None, cgroup: Path) -> Finding:
    memory = psutil.virtual_memory()
    limit = _number(_words(cgroup / "memory.max"))
    total = min(memory.total, limit or memory.total)
    available = min(memory.available, total)
    found = f"{available / _GB:,.1f} GB of {total / _GB:,.1f} GB available"
    needed = _needed(settings)
    if available >= needed:
        return ok("memory", found)
    return warning(
        "memory", found,
        f"A simulation of this size takes about {needed / _GB:,.1f} GB; end other programs, or set "
        "threads higher, which makes fewer workers.",
    )  # fmt: skip


def _needed(settings: Settings | None) -> float:
    """Return about how many bytes the processes of a simulation take, data and models aside."""
    workers = 1 if settings is None else _workers(settings)
    return _BESIDE + _WORKER * workers


def _workers(settings: Settings) -> int:
    return min(max(1, cores() // settings.threads), int(settings.num_clients))


def _place(key: str, value: str) -> Finding:
    """Look at a directory that need not exist yet, without making it."""
    directory = Path(value).expanduser()
    return examined(key, value, lambda: _room(key, directory))


def _room(key: str, directory: Path) -> Finding:
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):  # has no name, so that nobody sees it
            pass
    except OSError as error:
        return problem(key, str(directory), cannot_write(existing, error))
    free = shutil.disk_usage(existing).free
    found = f"{directory}, {free / _GB:,.1f} GB free"
    if free < _LITTLE_DISK:
        return warning(key, found, f"Free some space there, or name another {key}.")
    return ok(key, found)


def _quota(cgroup: Path) -> float | None:
    """Return to how many cores' time a container is limited; None where it is not."""
    words = _words(cgroup / "cpu.max")
    quota = _number(words[:1])
    period = _number(words[1:])
    return quota / period if quota and period else None


def _words(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return []


def _number(words: list[str]) -> int | None:
    return int(words[0]) if words and words[0].isdecimal() else None
