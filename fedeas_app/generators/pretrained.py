"""Generators that travel inside the app.

A Flower app bundle carries text files of at most 1 MiB each and leaves every other file out, so
the weights travel as base64 in numbered JSON files, at half precision. They are unpacked, once,
to an ordinary diffusers directory.
"""

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from safetensors.torch import load, save

from fedeas_app.errors import UserError
from fedeas_app.files import file_sha256, sha256
from fedeas_app.reading import is_inside, read_json
from fedeas_app.store import DamagedError, load_or_build

_ROOT = Path(__file__).parent / "shipped"
_PART_BYTES = 720_000  # 960,000 characters of base64: below the bundle's limit for one file
_CONFIGS = ("unet/config.json", "scheduler/scheduler_config.json", "card.json")
_SUMS = "sha256.json"
_WEIGHTS = "unet/diffusion_pytorch_model.safetensors"


def names() -> list[str]:
    """Return the names of the shipped generators."""
    return sorted(index.parent.name for index in _ROOT.glob("*/index.json"))


def pack(directory: Path, name: str, root: Path = _ROOT) -> Path:
    """Turn a generator directory into text files that an app bundle carries.

    What was packed under that name before is replaced.

    Parameters
    ----------
    directory : Path
        A trained generator in diffusers' layout.
    name : str
        What the key ``generator`` will call it.
    root : Path
        Where shipped generators live.
    """
    target = root / name
    target.mkdir(parents=True, exist_ok=True)
    weights = save({k: v.half() for k, v in load((directory / _WEIGHTS).read_bytes()).items()})
    configs = {name: json.loads((directory / name).read_text()) for name in _CONFIGS}
    parts = [weights[i : i + _PART_BYTES] for i in range(0, len(weights), _PART_BYTES)]
    index = {"files": configs, "parts": len(parts), "sha256": sha256(weights)}
    (target / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    for old in target.glob("part-*.json"):  # there may have been more of them
        old.unlink()
    for number, part in enumerate(parts):
        text = base64.b64encode(part).decode()
        (target / f"part-{number}.json").write_text(json.dumps({"base64": text}) + "\n")
    return target


def unpack(name: str, cache: Path, root: Path = _ROOT) -> Path:
    """Unpack a shipped generator below a cache directory and return its directory.

    Raises
    ------
    UserError
        The shipped files are damaged, or the cache cannot be written.
    """
    index = _read_index(root / name)
    return load_or_build(
        cache / f"{name}-{index['sha256'][:16]}",
        require_whole,
        lambda target: _fill(target, root / name, index),
    )


def require_whole(directory: Path) -> Path:
    """Return a directory that a generator was unpacked to, when its files are still the same.

    Raises
    ------
    DamagedError
        A file is missing, changed or not readable.
    """
    try:
        sums = read_json(directory / _SUMS)
        whole = (
            _WEIGHTS in sums
            and all(map(is_inside, sums))
            and all(file_sha256(directory / file) == total for file, total in sums.items())
        )
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DamagedError(str(error)) from error
    if not whole:
        raise DamagedError("a file was changed after unpacking")
    return directory


def seal(directory: Path, files: Iterable[str]) -> None:
    """Write down the checksums that `require_whole` looks at."""
    sums = {file: file_sha256(directory / file) for file in files}
    (directory / _SUMS).write_text(json.dumps(sums, indent=1))


def _read_index(source: Path) -> dict[str, Any]:
    try:
        index = json.loads((source / "index.json").read_text())
        return {name: index[name] for name in ("files", "parts", "sha256")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(source) from error


def _read_weights(source: Path, count: int) -> bytes:
    parts = (source / f"part-{number}.json" for number in range(count))
    try:
        return b"".join(base64.b64decode(json.loads(part.read_text())["base64"]) for part in parts)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(source) from error


def _damaged(source: Path) -> UserError:
    return UserError(f"The shipped generator {source.name!r} is damaged; install the app again.")


def _fill(target: Path, source: Path, index: dict[str, Any]) -> None:
    weights = _read_weights(source, index["parts"])
    if sha256(weights) != index["sha256"]:
        raise _damaged(source)
    for file, content in index["files"].items():
        (target / file).parent.mkdir(exist_ok=True)
        (target / file).write_text(json.dumps(content, indent=2))
    (target / _WEIGHTS).write_bytes(save({k: v.float() for k, v in load(weights).items()}))
    seal(target, (*index["files"], _WEIGHTS))
