"""What is kept of a run that was interrupted, so that it can go on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from fedeas_app.errors import UserError, first_line
from fedeas_app.files import write_text
from fedeas_app.reading import read_json
from fedeas_app.runs.directory import read_lines
from fedeas_app.settings import AUTO, Settings, read_toml

# What a run may go on with in another way without becoming another run.
_CHANGEABLE: Final = frozenset(
    {
        "rounds", "cache-dir", "cache-limit-gb", "output-dir", "run-name", "tracker", "device",
        "threads", "prepare-timeout", "round-timeout", "min-replies", "max-failed-rounds",
        "checkpoint-every", "resume", "generator-samples-every", "generator-checked",
        "generator-max-copies",
    }
)  # fmt: skip
CHECKPOINT: Final = "checkpoint.safetensors"
_LOCK: Final = ".lock"
_ROUNDS: Final = "rounds.jsonl"


def require_resumable(directory: Path, settings: Settings) -> dict[str, Any]:
    """Return the summary of an interrupted run that the settings are those of.

    Raises
    ------
    UserError
        There is no such run, it is completed, or the settings are those of another one.
    """
    summary = _read_json(directory / "summary.json")
    if not summary or not (directory / "config.toml").is_file():
        raise UserError(
            f"{directory} holds no run that could go on; name the directory of an interrupted one, "
            "or leave resume out."
        )
    if is_completed(directory):
        raise UserError(f"The run in {directory} is completed; there is nothing left to resume.")
    require_same(directory, settings)
    return summary


def is_completed(directory: Path) -> bool:
    """Tell whether a run has come to its end.

    Raises
    ------
    UserError
        Its summary is damaged.
    """
    return bool(_read_json(directory / "summary.json").get("status") == "completed")


def require_same(directory: Path, now: Settings) -> None:
    """Refuse settings that would make another run of the one in a directory.

    Raises
    ------
    UserError
        A key is another that a run may not go on with.
    """
    old, new = Settings.parse(read_toml(directory / "config.toml")).to_flat(), now.to_flat()
    for key in old.keys() - _CHANGEABLE:
        if new[key] not in (old[key], AUTO):
            raise UserError(
                f"{key} is {new[key]!r}, but the run in {directory} was begun with {old[key]!r}; "
                "leave it as it was, or start a new run."
            )


def lock(directory: Path) -> FileLock:
    """Keep other processes from writing the same record, as long as this one lives.

    Raises
    ------
    UserError
        Another one does.
    """
    held = FileLock(directory / _LOCK)
    try:
        held.acquire(blocking=False)
    except Timeout:
        raise UserError(f"The run in {directory} is still going on; wait for its end.") from None
    return held


def unlock(held: FileLock) -> None:
    """Let others write the record, and leave no trace of the lock."""
    Path(held.lock_file).unlink(missing_ok=True)
    held.release()


def cut_back(directory: Path, server_round: int) -> list[dict[str, Any]]:
    """Drop what was recorded after a round, and return the lines of the rounds until then."""
    path = directory / _ROUNDS
    if not server_round:  # all begins again, from the preparation on
        for begun in (path, directory / "preparation.jsonl"):
            begun.unlink(missing_ok=True)
        return []
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    lines = read_lines(path)[: server_round + 1]
    if [line.get("round") for line in lines] != list(range(server_round + 1)):
        raise UserError(
            f"{path} does not hold the rounds up to the checkpoint's, {server_round}; the run "
            "cannot go on. Start it anew under another run-name."
        )
    write_text(path, "".join(text.splitlines(keepends=True)[: server_round + 1]))
    return lines


def continued(directory: Path, server_round: int, now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of a run that goes on after a round, with what it goes on with noted.

    Raises
    ------
    UserError
        The data, the partition, the generator or the first model are not the ones it began with.
    """
    before: dict[str, Any] = _read_json(directory / "manifest.json")
    changed = [
        name
        for name, digest in now["digests"].items()
        if digest and before["digests"].get(name) != digest  # none: it is not known yet
    ]
    if changed:
        raise UserError(
            f"The run in {directory} was begun with another {' and '.join(changed)}; it cannot go "
            "on with this one. Bring back what it had, or start a new run."
        )
    here = {"after-round": server_round, "versions": now["versions"], "machine": now["machine"]}
    return before | {"resumed": [*before.get("resumed", []), here]}


def with_generator(directory: Path, digest: str) -> dict[str, Any]:
    """Return the manifest of a run with the generator that its clients have trained.

    Raises
    ------
    UserError
        They had trained another one before the run was interrupted.
    """
    manifest = _read_json(directory / "manifest.json")
    before = manifest["digests"]["generator"]
    if before not in ("", digest):
        raise UserError(
            f"The generator in {directory} was {before} when its clients had trained it, but is "
            f"{digest} now; bring back its files, or start a new run."
        )
    return manifest | {"digests": manifest["digests"] | {"generator": digest}}


def _read_json(path: Path) -> dict[str, Any]:
    """Return the table in a file; empty where there is none.

    Raises
    ------
    UserError
        It is damaged.
    """
    try:
        content = read_json(path)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {first_line(error)}.") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} cannot be read: it holds no table.")
    return content
