"""Flower: the SuperLink that ``flwr run`` leaves running, and the ports that it takes."""

import socket
from itertools import pairwise
from pathlib import Path

import psutil
from flwr.cli.constant import LOCAL_CONTROL_API_PORT, LOCAL_SUPERLINK_HTTP_API_PORT

from fedeas_app.diagnosis.findings import Finding, examined, ok, warning

_PROGRAM = "flower-superlink"
_PORTS = {
    LOCAL_SUPERLINK_HTTP_API_PORT: "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT",
    LOCAL_CONTROL_API_PORT: "FLWR_LOCAL_CONTROL_API_PORT",
}


def look_at_flower() -> list[Finding]:
    """Return whether ``flwr run`` finds a SuperLink of its own, or something in its place."""
    return [
        ok("fedeas run", "takes ports that are free, and starts a SuperLink for each run"),
        examined("flwr run", "", _left_running),
    ]


def _left_running() -> Finding:
    subject, port = "flwr run", LOCAL_SUPERLINK_HTTP_API_PORT
    pid = superlink_at(port)
    if pid is not None:
        return warning(
            subject, f"its SuperLink runs (process {pid}, port {port})",
            "It keeps the environment in which it was first started; after a change of packages or "
            f"variables end it with `kill {pid}`.",
        )  # fmt: skip
    taken = [port for port in _PORTS if is_taken(int(port))]
    if taken:
        return warning(
            subject, f"port {taken[0]} is taken by another program",
            f"flwr run wants it for its SuperLink; set {_PORTS[taken[0]]} to another one.",
        )  # fmt: skip
    return ok(subject, f"no SuperLink of it runs; its ports {' and '.join(_PORTS)} are free")


def superlink_at(port: str) -> int | None:
    """Return the process of a SuperLink that was told to listen at a port."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        is_superlink = any(Path(word).name == _PROGRAM for word in words[:2])
        if is_superlink and ("--port", port) in pairwise(words):
            return int(process.pid)
    return None


def is_taken(port: int) -> bool:
    """Tell whether somebody listens at a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
