"""A federation of real processes, started as the unit files of ``deploy/`` start them."""

import os
import shlex
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from real_runs import BIN, ROOT

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
        """Start the SuperLink and its SuperExec and wait for the first."""
        self._start("superlink", exec_start("fedeas-superlink.service"), "server")
        self._start("superexec", exec_start("fedeas-superexec.service"), "server")
        self.wait_for("superlink", "Application startup complete")

    def start_node(
        self, name: str, node_config: str, *, without: Sequence[str] = (), plus: Sequence[str] = ()
    ) -> None:
        """Start a SuperNode, perhaps with options left out or added."""
        words = exec_start("fedeas-supernode@.service")
        told = {"${SUPERLINK}": self.address, "${PORT}": str(free_port()), "%i": name}
        words = [_replace(word, told | {"${NODE_CONFIG}": node_config}) for word in words]
        for option in without:
            position = words.index(option)
            del words[position : position + 2]
        self._start(name, [*words, *plus], name)

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

    def _start(self, name: str, words: list[str], machine: str) -> None:
        places = {
            "/opt/fedeas/.venv/bin": str(BIN),
            "/etc/fedeas": str(self._etc),
            "/var/lib/fedeas": str(self._state),
            "127.0.0.1:8000": self.address,
        }
        command = [_replace(word, places) for word in words]
        if name == "superlink":
            command[-4:] = ["--host", self._machines.host, "--port", str(self.port)]
        home = self._state / name
        home.mkdir(exist_ok=True)
        with open(self._root / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen(
                [*self._machines.inside(machine), *command],
                cwd=home, env=self._environment_of(name, home), stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def _environment_of(self, name: str, home: Path) -> dict[str, str]:
        own = {"HOME": str(home), "FLWR_HOME": str(home), "COLUMNS": "200"}
        return {**self._environment, **own, "OMP_NUM_THREADS": "1"}


def exec_start(unit: str) -> list[str]:
    """Return the command of a unit file, in words."""
    text = (DEPLOY / unit).read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = (line for line in text.splitlines() if line.startswith("ExecStart="))
    return shlex.split(line.removeprefix("ExecStart="))


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


def _replace(word: str, values: Mapping[str, str]) -> str:
    for old, new in values.items():
        word = word.replace(old, new)
    return word
