"""Run the app in Flower's simulation without leaving anything behind.

``flwr run`` alone starts a SuperLink that stays, remembers the environment of its first caller,
installs the app's dependencies anew and ends with status 0 even when the run failed. Here every run
has a SuperLink, a Flower home and a port of its own, and all its processes end with it.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import tomli_w

from fedeas_app.commands.configuration import app_root
from fedeas_app.errors import UserError
from fedeas_app.processes import MARK, Guard, end
from fedeas_app.settings import Settings
from fedeas_app.workers import plan_workers

_CLOUDS = ("169.254.169.254", "metadata.google.internal")
START_TIMEOUT = 60.0  # seconds for the SuperLink to answer
_NOT_OF_THE_APP = shutil.ignore_patterns("__pycache__", "bundle")
Handler = Callable[[int, FrameType | None], None] | signal.Handlers
_ENDING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
_SHORT_ENOUGH = (
    60  # Ray's sockets lie below its directory, and their paths must not exceed 107 bytes
)


class Simulation:
    """A SuperLink of our own with one run in it.

    Parameters
    ----------
    settings : Settings
    home : Path
        An empty directory; becomes the Flower home.
    """

    def __init__(self, settings: Settings, home: Path) -> None:
        self._settings = settings
        self._home = home
        self._port = _free_port()
        self._mark = uuid.uuid4().hex
        self.log_file = home / "flower.log"
        self._guard = Guard(self._mark, str(home))
        self._superlink = self._start_superlink()

    def submit(self) -> "subprocess.Popen[bytes]":
        """Submit the app and return the process that follows its log until it ends."""
        self._await_superlink()
        config = self._home / "run.toml"
        config.write_text(tomli_w.dumps(self._settings.to_flat()), encoding="utf-8")
        command = [
            tool("flwr"), "run", str(app_directory(self._home)), "local", "--stream",
            "--run-config", str(config), "--federation-config", federation_config(self._settings),
        ]  # fmt: skip
        return self._popen(command)

    def stop(self) -> None:
        """End every process of this run."""
        end(self._mark)
        self._superlink.wait()
        self._guard.dismiss()

    def log_text(self) -> str:
        """Return Flower's log, without its colours."""
        text = self.log_file.read_text(encoding="utf-8", errors="replace")
        return re.sub(r"\x1b\[[0-9;]*m", "", text)

    def complaints(self, lines: int = 15) -> str:
        """Return the end of what Flower's log holds beside information."""
        notable = (line for line in self.log_text().splitlines() if "INFO" not in line)
        return "\n".join(list(notable)[-lines:])

    def _start_superlink(self) -> "subprocess.Popen[bytes]":
        connection = {"address": f"127.0.0.1:{self._port}", "insecure": True}
        config = {"superlink": {"default": "local", "local": connection}}
        (self._home / "config.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
        return self._popen(
            [
                tool("flower-superlink"),
                "--insecure",
                "--simulation",
                "--host",
                "127.0.0.1",
                "--port",
                str(self._port),
                "--isolation",
                "subprocess",
            ]
        )

    def _await_superlink(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and self._superlink.poll() is None:
            with suppress(OSError):
                opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
                with opener.open(f"http://127.0.0.1:{self._port}/health", timeout=2):
                    return
            time.sleep(0.1)
        raise UserError(f"Flower's SuperLink did not start:\n{self.complaints()}")

    def _popen(self, command: list[str]) -> "subprocess.Popen[bytes]":
        with open(self.log_file, "ab") as log:
            return subprocess.Popen(  # noqa: S603  # our own command line, no shell
                command, cwd=self._home, env=self._environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        bin_directory = str(Path(sys.executable).parent)
        environment = os.environ | {
            MARK: self._mark,
            "PATH": os.pathsep.join([bin_directory, os.environ.get("PATH", "")]),
            "FLWR_HOME": str(self._home),
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "PYTHONUNBUFFERED": "1",
        }
        environment |= _proxies() | gpus_shown(self._settings)
        if len(str(self._home)) < _SHORT_ENOUGH:
            environment["RAY_TMPDIR"] = str(self._home)
        return environment


def gpus_shown(settings: Settings) -> dict[str, str]:
    """Return what has Ray show every worker all GPUs, where the device is one of them by number.

    Otherwise each sees one alone, as ``cuda:0``.
    """
    named = settings.device.startswith("cuda:")
    return {"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"} if named else {}


def _proxies() -> dict[str, str]:
    """Return what keeps on this machine what belongs there.

    Ray asks the addresses of clouds which of them it is in, also where its statistics are switched
    off. A proxy for these hosts alone leads to a port where nobody listens.
    """
    given = ",".join(filter(None, map(os.environ.get, ("NO_PROXY", "no_proxy")))).split(",")
    exceptions = [host for host in given if host and host.strip() not in _CLOUDS]
    local = ",".join([*exceptions, "127.0.0.1", "localhost"])
    nowhere = {f"http://{host}_proxy": "http://127.0.0.1:9" for host in _CLOUDS}
    # Python prefers the lower-case name where both are set.
    return {"NO_PROXY": local, "no_proxy": local} | nowhere


@contextmanager
def simulation(settings: Settings) -> Iterator[Simulation]:
    """Start a SuperLink; end all its processes and remove its files afterwards.

    Also on Ctrl-C, SIGTERM and a closed terminal, which raise `KeyboardInterrupt` here; while the
    processes are being ended they are ignored, so that an impatient second one orphans nothing.
    """
    home = Path(tempfile.mkdtemp(prefix="fedeas-"))
    started: Simulation | None = None
    with interruptible():
        try:
            started = Simulation(settings, home)
            yield started
        finally:
            with _signals(signal.SIG_IGN):
                if started is not None:
                    started.stop()
                shutil.rmtree(home, ignore_errors=True)


def app_directory(scratch: Path) -> Path:
    """Put together the directory that Flower bundles: the app, and nothing that lies beside it.

    Flower looks at every file below; a clone may hold an environment with tens of thousands.

    Parameters
    ----------
    scratch : Path
        A directory in which that can be done.
    """
    root, package, target = app_root(), Path(__file__).parents[1], scratch / "app"
    shutil.copytree(package, target / "fedeas_app", ignore=_NOT_OF_THE_APP)
    shutil.copytree(root / "conf", target / "conf")
    for file in ("pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(root / file, target)
    for door in ("server_app.py", "client_app.py"):
        shutil.copy(package.parent / door, target)
    return target


def federation_config(settings: Settings) -> str:
    """Return Flower's simulation options: one worker for each `threads` cores, GPUs shared."""
    workers = plan_workers(settings)
    options: dict[str, str | int | float] = {
        "num-supernodes": int(settings.num_clients),
        "client-resources-num-cpus": workers.cpus,
        "client-resources-num-gpus": workers.gpus,
        "init-args-num-cpus": workers.available,
        "init-args-logging-level": '"ERROR"',
        "init-args-log-to-driver": "false",
    }
    return " ".join(f"{key}={value}" for key, value in options.items())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def tool(name: str) -> str:
    """Return the path of one of Flower's commands, the one of this environment if it has it."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise UserError(f"{name} is not installed; run `pip install 'flwr[simulation]'`.")
    return found


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and a closed terminal all raise `KeyboardInterrupt`."""
    with _signals(_interrupt):
        yield


@contextmanager
def _signals(handler: Handler) -> Iterator[None]:
    """Give the signals that end a command another handler for a while."""
    before = {name: signal.signal(name, handler) for name in _ENDING}
    try:
        yield
    finally:
        for name, old in before.items():
            signal.signal(name, old)
