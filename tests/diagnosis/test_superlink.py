"""The SuperLink that ``flwr run`` leaves, and its ports."""

import socket
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from fedeas_app.diagnosis import superlink
from fedeas_app.diagnosis.superlink import is_taken, look_at_flower, superlink_at

COMMAND = ["/venv/bin/python", "/venv/bin/flower-superlink", "--insecure", "--port", "39091"]


@pytest.fixture
def processes(monkeypatch):
    listed = []
    monkeypatch.setattr(psutil, "process_iter", lambda names: iter(listed))
    return listed


def process(pid, command):
    return SimpleNamespace(pid=pid, info={"cmdline": command})


def test_a_superlink_is_known_by_its_name_and_port(processes):
    processes += [
        process(1, None),
        process(2, ["vim", "flower-superlink.md", "--port", "39091"]),
        process(3, [*COMMAND[:-1], "40000"]),  # of fedeas run
        process(4, COMMAND),
    ]
    assert superlink_at("39091") == 4
    assert superlink_at("39092") is None


def test_one_that_is_left_is_told_with_how_to_end_it(processes):
    processes.append(process(4, COMMAND))
    found = look_at_flower()[-1]
    assert found.status == "warning"
    assert "kill 4" in found.advice


@pytest.mark.parametrize("taken", [True, False])
def test_a_port_that_another_program_has(processes, monkeypatch, taken):
    monkeypatch.setattr(superlink, "is_taken", lambda port: taken and port == 39093)
    found = look_at_flower()[-1]
    assert found.status == ("warning" if taken else "ok")
    assert ("FLWR_LOCAL_CONTROL_API_PORT" in found.advice) == taken


def test_ports_are_taken_while_somebody_listens():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert is_taken(port)
    assert not is_taken(port)


def test_processes_of_this_machine_are_seen(tmp_path):
    program = tmp_path / "flower-superlink"
    program.write_text("import time\ntime.sleep(60)\n")
    with subprocess.Popen([sys.executable, str(program), "--port", "1"]) as started:
        try:
            assert superlink_at("1") == started.pid
        finally:
            started.kill()
