"""What happens on disks that are full or may not be written; run in a mount namespace of its own.

``unshare --user --map-root-user --mount python tests/small_disks.py DIRECTORY`` prints what became
of each case as JSON. A mount is the only thing that refuses root, too.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fake_generator import FakeGenerator
from fake_grid import FakeGrid
from flwr.app import Array, ArrayRecord, Context, RecordDict
from flwr.supercore.task_identity import TaskIdentity

import fedeas_app.node
import server_app
from fedeas_app.checkpoint import Checkpoint, load_checkpoint
from fedeas_app.errors import UserError
from fedeas_app.generators.cache import Drawer
from fedeas_app.runs.directory import read_summary
from fedeas_app.settings import Settings
from fedeas_app.strategies.state import StrategyState


def mount(place: Path, *options: str) -> Path:
    """Put a disk of 600 kB at a place, or change the one that is there."""
    place.mkdir(exist_ok=True)
    sized = ",".join(["size=600k", *options])  # the last size counts
    words = ["mount", "-t", "tmpfs", "-o", sized, "tmpfs", str(place)]
    subprocess.run(words, check=True)
    return place


def fill(place: Path, left: int) -> None:
    """Leave so many bytes."""
    free = 600 * 1024 - sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    (place / "filling").write_bytes(bytes(max(0, free - left)))


def told(action: Callable[[], object]) -> str:
    try:
        action()
    except UserError as error:
        return str(error)
    return ""


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def checkpoint(root: Path) -> dict[str, Any]:
    """A checkpoint that does not fit beside the old one."""
    disk = mount(root / "checkpoint")
    states = [StrategyState(ArrayRecord(), {"n": number}) for number in (1, 2)]
    small, large = (ArrayRecord({"w": Array(np.zeros(n))}) for n in (100, 100_000))
    Checkpoint(1, small, states[0]).save(disk)
    said = told(lambda: Checkpoint(2, large, states[1]).save(disk))
    kept = load_checkpoint(disk)
    return {"said": said, "names": names(disk), "kept": kept.server_round if kept else None}


def cache(root: Path) -> dict[str, Any]:
    """More synthetic images than fit; what was finished is kept, and is right."""
    disk = mount(root / "cache")
    few, many = np.array([3, 2]), np.array([30_000, 2])
    drawer = Drawer(disk, FakeGenerator(), 5)
    first = drawer.fetch(few)[0]
    said = told(lambda: drawer.fetch(many))
    again, _, made = Drawer(disk, FakeGenerator(), 5).fetch(few)
    left = [name for name in names(drawer.directory) if name.startswith(".")]
    return {"said": said, "left": left, "made": made, "same": bool((first == again).all())}


def settings(root: Path, disk: Path, **keys: Any) -> Settings:
    small = {
        "dataset": "digits", "cache-dir": str(root / "shared"), "output-dir": str(disk),
        "run-name": "run", "device": "cpu", "policy": "none", "train-samples": 200,
        "test-samples": 50, "num-clients": 2, "rounds": 3, "local-epochs": 1,
    }  # fmt: skip
    return Settings.parse(small | {key.replace("_", "-"): value for key, value in keys.items()})


def go(run: Settings, tamper: Any = None) -> None:
    grid = FakeGrid(run, 2, tamper=tamper)
    server_app.main(grid, Context(1, 0, {}, RecordDict(), run.to_flat()))


def record(root: Path) -> dict[str, Any]:
    """A disk that is full when the second round is to be recorded."""
    disk = mount(root / "record")
    run = settings(root, disk)

    def fill_up(partition: int, request: Any, reply: Any) -> Any:
        if request.content["config"].get("server-round") == 2:
            fill(disk, 0)
        return reply

    said = told(lambda: go(run, fill_up))
    left = [name for name in names(disk / "run") if name.startswith(".")]
    kept = load_checkpoint(disk / "run")
    (disk / "filling").unlink()
    go(settings(root, disk, resume=True))
    return {
        "said": said,
        "left": left,
        "kept": kept.server_round if kept else None,
        "after": (read_summary(disk / "run") or {}).get("status"),
    }


def read_only(root: Path) -> dict[str, Any]:
    """A cache that has all that is needed and may not be written."""
    for name in ("whole", "again"):
        disk = mount(root / name)
        if name == "again":
            mount(root / "shared", "size=50m", "ro", "remount")
        go(settings(root, disk))
    statuses = [
        (read_summary(root / name / "run") or {}).get("status") for name in ("whole", "again")
    ]
    disk = mount(root / "state")
    said = told(lambda: go(settings(root, disk, strategy="scaffold")))
    return {"statuses": statuses, "said": said}


def main() -> None:
    """Go through all cases."""
    root = Path(sys.argv[1])
    for name in ("_run_id", "_task_id", "_node_id"):  # or no message can be made
        setattr(TaskIdentity, name, 1)
    fedeas_app.node.in_simulation = lambda: True
    mount(root / "shared", "size=50m")
    outcome = {case.__name__: case(root) for case in (checkpoint, cache, record, read_only)}
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
