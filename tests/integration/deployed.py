"""A federation of real processes, started as the unit files of ``deploy/`` start them."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from real_runs import BIN, MARK, ROOT, processes

DEPLOY = ROOT / "deploy"
Process = subprocess.Popen[bytes]


class Loopback:
    """All machines are this one."""

    host = "127.0.0.1"

    def inside(self, machine: str) -> list[str]:
        """Return what a command that runs on a machine begins with."""
        return []


class Namespaces:
    """Each machine has a network of its own, and a cable to the server's."""

    host = "10.77.0.1"

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex[:6]
        self._names: list[str] = []
        self._ip("link", "add", "br0", "type", "bridge", machine="server")
        self._ip("addr", "add", f"{self.host}/24", "dev", "br0", machine="server")
        self._ip("link", "set", "br0", "up", machine="server")

    def inside(self, machine: str) -> list[str]:
        """Return what a command that runs on a machine begins with."""
        return ["ip", "netns", "exec", self._namespace(machine)]

    def remove(self) -> None:
        """Remove the networks; what runs in them has to have ended."""
        for name in self._names:
            subprocess.run(["ip", "netns", "delete", name], check=False)  # noqa: S607  # root's own

    def _namespace(self, machine: str) -> str:
        name = f"fedeas-{self._mark}-{machine}"
        if name not in self._names:
            self._names.append(name)
            subprocess.run(["ip", "netns", "add", name], check=True)  # noqa: S607  # root's own
            self._ip("link", "set", "lo", "up", machine=machine)
            if machine != "server":
                self._lay_cable(machine, len(self._names))
        return name

    def _lay_cable(self, machine: str, number: int) -> None:
        far = ["peer", "name", f"to{number}", "netns", self._namespace("server")]
        self._ip("link", "add", "eth0", "type", "veth", *far, machine=machine)
        self._ip("addr", "add", f"10.77.0.{number}/24", "dev", "eth0", machine=machine)
        self._ip("link", "set", "eth0", "up", machine=machine)
        self._ip("link", "set", f"to{number}", "master", "br0", "up", machine="server")

    def _ip(self, *words: str, machine: str) -> None:
        subprocess.run([*self.inside(machine), "ip", *words], check=True)


@contextmanager
def network() -> Iterator[Loopback | Namespaces]:
    """Give each machine a network of its own where that is allowed, else share the loopback."""
    if not _may_make_namespaces():
        yield Loopback()
        return
    separate = Namespaces()
    try:
        yield separate
    finally:
        separate.remove()


def _may_make_namespaces() -> bool:
    name = f"fedeas-{uuid.uuid4().hex[:6]}-probe"
    if shutil.which("ip") is None or os.geteuid() != 0:
        return False
    words = ["ip", "netns", "add", name]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        return False
    subprocess.run(["ip", "netns", "delete", name], check=False)  # noqa: S607  # root's own
    return True


class Federation:
    """A SuperLink, its SuperExec, SuperNodes and an operator, below one directory.

    Parameters
    ----------
    root : Path
        An empty directory.
    environment : mapping
        Of all processes, whose mark ends them.
    machines : Loopback or Namespaces
    """

    def __init__(
        self, root: Path, environment: Mapping[str, str], machines: Loopback | Namespaces
    ) -> None:
        self._root, self._environment, self._machines = root, environment, machines
        self._etc, self._state = root / "etc", root / "state"
        self.port = free_port()
        self.address = f"{machines.host}:{self.port}"
        self.processes: dict[str, Process] = {}
        for directory in (self._etc, self._state, root / "operator"):
            directory.mkdir()

    @property
    def certificates(self) -> Path:
        """Where ``fedeas certs`` has put its files."""
        return self._root / "certs"

    def make_certificates(self, *nodes: str) -> None:
        """Make keys and certificates, and bring each file to where the guide says."""
        names = ["--name", self._machines.host, *(f"--node={node}" for node in nodes)]
        done = self.command("fedeas", "certs", "--out", str(self.certificates), *names)
        assert done.returncode == 0, done.stderr
        wanted = ["ca.crt", "server.pem", "server.key", *(f"nodes/{node}" for node in nodes)]
        for name in wanted:
            shutil.copy(self.certificates / name, self._etc)
        (self._etc / "superexec.secret").write_bytes(os.urandom(32))
        connection = f'address = "{self.address}"\nroot-certificates = "{self._etc}/ca.crt"\n'
        config = self._root / "operator/config.toml"
        config.write_text(f"[superlink.site]\n{connection}", encoding="utf-8")

    def start_server(self) -> None:
        """Start the SuperLink and its SuperExec, if they do not run, and wait for the first."""
        for name in ("superlink", "superexec"):
            if name not in self.processes or self.processes[name].poll() is not None:
                self._start(name, f"fedeas-{name}.service", exec_start(f"fedeas-{name}.service"))
        self.wait_for("superlink", "Application startup complete")

    def start_node(
        self, name: str, node_config: str, *, without: Sequence[str] = (), plus: Sequence[str] = ()
    ) -> None:
        """Start a SuperNode, perhaps with options left out or added."""
        unit = "fedeas-supernode@.service"
        words = exec_start(unit)
        told = {"${SUPERLINK}": self.address, "${PORT}": str(free_port()), "%i": name}
        words = [_replace(word, told | {"${NODE_CONFIG}": node_config}) for word in words]
        for option in without:
            position = words.index(option)
            del words[position : position + 2]
        self._start(name, unit, [*words, *plus], machine=name)

    def stop(self, name: str) -> None:
        """Stop a process and what it has started, as ``systemctl stop`` does, and wait for it."""
        os.killpg(self.processes[name].pid, signal.SIGTERM)
        assert self.processes[name].wait(60) is not None
        home = str(self._state / name)
        wait_until(lambda: not self._living(home), 60, lambda: self.log(name))

    def peak_memory(self) -> dict[str, float]:
        """Return the most memory that the living processes have used, in MB, by their command."""
        peaks: dict[str, float] = {}
        for process in processes(self._environment[MARK]):
            with suppress(psutil.Error, OSError):
                command = next(filter(_is_flowers, map(_name, process.cmdline())), "other")
                peaks[command] = max(peaks.get(command, 0.0), _high_water(process.pid))
        return peaks

    def _living(self, home: str) -> bool:
        for process in processes(self._environment[MARK]):
            with suppress(psutil.Error):
                if process.environ().get("HOME") == home:
                    return True
        return False

    def register(self, *nodes: str) -> None:
        """Tell the SuperLink which keys are nodes'."""
        for node in nodes:
            public = str(self.certificates / f"nodes/{node}.pub")
            done = self.command("flwr", "supernode", "register", public, "site", "--name", node)
            assert done.returncode == 0, done.stdout + done.stderr

    def command(self, *words: str, timeout: float = 600) -> "subprocess.CompletedProcess[str]":
        """Run a command as the operator does, on the server's machine."""
        return subprocess.run(
            [*self._machines.inside("server"), str(BIN / words[0]), *words[1:]],
            cwd=self._root, env=self._environment_of("operator", self._root / "operator"),
            capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    def spawn(self, *words: str) -> "subprocess.Popen[str]":
        """Start a command of the operator's that is not waited for."""
        return subprocess.Popen(
            [*self._machines.inside("server"), str(BIN / words[0]), *words[1:]],
            cwd=self._root, env=self._environment_of("operator", self._root / "operator"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def log(self, name: str) -> str:
        """Return what a process has said."""
        return (self._root / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def wait_for(self, name: str, words: str, timeout: float = 120) -> None:
        """Wait until a process has said something."""
        wait_until(lambda: words in self.log(name), timeout, lambda: self.log(name))

    def _start(self, name: str, unit: str, words: list[str], machine: str = "server") -> None:
        command = [_replace(word, self._places) for word in words]
        if name == "superlink":
            command[-4:] = ["--host", self._machines.host, "--port", str(self.port)]
        home = self._state / name
        home.mkdir(exist_ok=True)
        with open(self._root / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen(
                [*self._machines.inside(machine), *command],
                cwd=home, env=self._environment_of(name, home) | self._search_path(unit),
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    @property
    def _places(self) -> dict[str, str]:
        """Where things are here, by where the units have them."""
        return {
            "/opt/fedeas/.venv/bin": str(BIN),
            "/etc/fedeas": str(self._etc),
            "/var/lib/fedeas": str(self._state),
            "127.0.0.1:8000": self.address,
        }

    def _search_path(self, unit: str) -> dict[str, str]:
        """Return the unit's own search path: a service has nothing of a user's environment."""
        return {"PATH": _replace(unit_environment(unit)["PATH"], self._places)}

    def _environment_of(self, name: str, home: Path) -> dict[str, str]:
        own = {"HOME": str(home), "FLWR_HOME": str(home), "COLUMNS": "200"}
        return {**self._environment, **own, "OMP_NUM_THREADS": "1"}


@contextmanager
def federation(
    root: Path, environment: Mapping[str, str], machines: Loopback | Namespaces
) -> Iterator[Federation]:
    """Give a federation in a new directory, and end all its processes."""
    root.mkdir()
    made = Federation(root, environment, machines)
    try:
        yield made
    finally:
        for process in processes(environment[MARK]):
            process.kill()
        for started in made.processes.values():
            started.wait()


def node_config(number: int, nodes: int, caches: Path) -> str:
    """Return what a node is told that takes its part of a shared dataset."""
    return f'partition-id={number} num-partitions={nodes} cache-dir="{caches}/{number}"'


def exec_start(unit: str) -> list[str]:
    """Return the command of a unit file, in words."""
    (words,) = _values(unit, "ExecStart=")
    return words


def unit_environment(unit: str) -> dict[str, str]:
    """Return the environment variables that a unit file sets."""
    pairs = [pair for words in _values(unit, "Environment=") for pair in words]
    return dict(pair.split("=", 1) for pair in pairs)


def _values(unit: str, key: str) -> list[list[str]]:
    """Return what a unit file says after a key, in words, for each time it does."""
    text = (DEPLOY / unit).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.startswith(key)]
    return [shlex.split(line.removeprefix(key)) for line in lines]


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(true: Callable[[], bool], timeout: float, explain: Callable[[], str] = str) -> None:
    """Look again and again until something is so."""
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, explain()
        time.sleep(0.2)


def _name(word: str) -> str:
    return Path(word).name


def _is_flowers(name: str) -> bool:
    return name.startswith(("flower-", "flwr-"))


def _high_water(pid: int) -> float:
    """Return the most memory that a process has had at once, in MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1000


def _replace(word: str, values: Mapping[str, str]) -> str:
    for old, new in values.items():
        word = word.replace(old, new)
    return word
