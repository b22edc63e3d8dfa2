"""A run on a SuperLink that is there already, which one of Flower's connections leads to."""

import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedeas_app.commands.configuration import absolute_path
from fedeas_app.commands.console import err
from fedeas_app.commands.launcher import app_directory, tool
from fedeas_app.errors import UserError, first_line
from fedeas_app.reading import parse_json, parse_toml, read_text
from fedeas_app.settings import Settings

_POLL = 5.0  # seconds between questions about a run whose log has ended
_PATIENCE = 60.0  # seconds for a SuperLink to answer again, say after a restart
_OVER = "finished:"  # what the status of a run that has ended begins with
_WRAPPING = "ServerApp failed with exception: "
_MANAGED = ":local"  # addresses of SuperLinks that Flower starts by itself


@dataclass(frozen=True)
class Outcome:
    """How a run stands: ``running``, for example, and what Flower adds to it, if anything."""

    status: str
    details: str

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.status.startswith(_OVER)

    def require_completion(self) -> None:
        """Say why a run has not come to its end.

        Raises
        ------
        UserError
        """
        if self.status == _OVER + "completed":
            return
        reason = self.details.removeprefix(_WRAPPING).strip().rstrip(".")
        raise UserError(f"The run has {self.status.removeprefix(_OVER)}{reason and ': '}{reason}.")


def require_connection(name: str) -> None:
    """Refuse a connection that the user's Flower configuration lacks, or that only simulates.

    Raises
    ------
    UserError
        Lists the connections that there are.
    """
    path = _flower_home() / "config.toml"
    known = _connections(path)
    if name not in known:
        listed = f"it has {', '.join(known)}" if known else "it has none"
        raise UserError(
            f"There is no SuperLink connection {name!r} in {path}; {listed}. Choose one of these, "
            f"or add a table [superlink.{name}] with its address and root-certificates."
        )
    if str(known[name].get("address", "")).startswith(_MANAGED):
        raise UserError(
            f"The connection {name!r} leads to a SuperLink that Flower starts for simulations; "
            "leave --superlink out, as fedeas run simulates by itself."
        )


def require_paths_for_others(settings: Settings) -> None:
    """Refuse relative paths: they would be taken from a directory of Flower's on other machines.

    Raises
    ------
    UserError
    """
    for key, value in settings.to_flat().items():
        if absolute_path(key, value) != value:
            raise UserError(
                f"{key} is {value!r}; on other machines only a path that is absolute or begins "
                "with ~/ has a meaning."
            )


def submit(name: str, settings: Settings) -> int:
    """Hand the app and a configuration to a SuperLink and return the id of the run.

    Raises
    ------
    UserError
        The SuperLink cannot be reached, or refuses.
    """
    with tempfile.TemporaryDirectory(prefix="fedeas-") as scratch:
        config = Path(scratch) / "run.toml"
        config.write_text(tomli_w.dumps(settings.to_flat()), encoding="utf-8")
        app = str(app_directory(Path(scratch)))
        answer = _ask("run", app, name, "--run-config", str(config))
    return int(answer["run-id"])


def follow(name: str, run_id: int) -> Outcome:
    """Show the log of a run until the run has ended, and return how it ended.

    Where the log breaks off, as when the SuperLink is started anew, the run is waited for without.

    Raises
    ------
    UserError
        The SuperLink cannot be reached any more.
    """
    if not _show_log(name, run_id):
        err.print("The log has broken off; waiting for the end of the run without it.")
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            outcome = look(name, run_id)
            if outcome.over:
                return outcome
            deadline = time.monotonic() + _PATIENCE
        except UserError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_POLL)


def look(name: str, run_id: int) -> Outcome:
    """Ask a SuperLink how a run stands; the exit status of Flower's commands does not tell.

    Raises
    ------
    UserError
        The SuperLink does not answer, or knows no such run.
    """
    (run,) = _ask("ls", name, "--run-id", str(run_id))["runs"]
    return Outcome(run["status"], run.get("status-details") or "")


def _show_log(name: str, run_id: int) -> bool:
    """Show a run's log while it grows; return whether it was followed to its end."""
    command = [tool("flwr"), "log", str(run_id), name, "--stream"]
    # A session of its own: Ctrl-C is for this process, which says what becomes of the run.
    process = subprocess.Popen(  # noqa: S603  # our own command line, no shell
        command, env=_environment(), stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait() == 0
    finally:
        process.kill()
        process.wait()


def _ask(*words: str) -> dict[str, Any]:
    """Return what one of Flower's commands answers.

    Raises
    ------
    UserError
        With Flower's own reason.
    """
    done = subprocess.run(  # noqa: S603  # our own command line, no shell
        [tool("flwr"), *words, "--format", "json"], env=_environment(),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    answer = _json(done.stdout)
    if done.returncode or not answer.get("success"):
        said = str(answer.get("error-message") or done.stderr or done.stdout)
        raise UserError(f"Flower refuses `flwr {words[0]}`: {_last_paragraph(said)}")
    return answer


def _last_paragraph(text: str) -> str:
    """Return the reason, in one line: what Flower was about to do comes before it."""
    paragraph = text.strip().split("\n\n")[-1].removeprefix("Error: ")
    return " ".join(paragraph.split())


def _json(text: str) -> dict[str, Any]:
    try:
        answer = parse_json(text)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _environment() -> dict[str, str]:
    return os.environ | {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PYTHONUNBUFFERED": "1",
    }


def _flower_home() -> Path:
    return Path(os.environ.get("FLWR_HOME") or Path.home() / ".flwr")


def _connections(path: Path) -> dict[str, dict[str, Any]]:
    try:
        content = parse_toml(read_text(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UserError(
            f"Flower's configuration {path} cannot be read ({first_line(error)}); put it right."
        ) from None
    tables = content.get("superlink", {})
    return {name: table for name, table in tables.items() if isinstance(table, dict)}
