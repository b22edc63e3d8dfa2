"""The end of a simulation's processes, also when who started them is killed."""

import os
import signal
import subprocess
import sys
import time
import uuid

import psutil
import pytest

from fedeas_app.processes import MARK, Guard, end

# Starts a guard, and a marked process in a session of its own, whose number it prints.
STARTER = """
import os, subprocess, sys, time
from fedeas_app.processes import MARK, Guard
mark, home = sys.argv[1:]
guard = Guard(mark, home)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                         env=os.environ | {MARK: mark}, start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def mark():
    mark = uuid.uuid4().hex
    yield mark
    end(mark)


def marked(mark, code="import time; time.sleep(600)"):
    environment = os.environ | {MARK: mark}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, start_new_session=True)


def gone(pid, seconds=30.0):
    """Wait for a process to end; one that nobody has collected counts as ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_all_end_when_their_starter_is_killed(tmp_path, mark, how):
    home = tmp_path / "home"
    home.mkdir()
    (home / "flower.log").write_text("log")
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, mark, str(home)], stdout=subprocess.PIPE, text=True
    )
    child = int(starter.stdout.readline())
    assert psutil.pid_exists(child)
    starter.send_signal(how)
    starter.wait()
    starter.stdout.close()
    assert gone(child)
    deadline = time.monotonic() + 30
    while home.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not home.exists()


def test_others_are_left_alone(mark):
    ours, other = marked(mark), marked(mark[::-1] + "0")
    try:
        time.sleep(0.2)
        end(mark)
        assert gone(ours.pid)
        assert other.poll() is None
    finally:
        ours.wait()
        other.kill()
        other.wait()


def test_who_does_not_listen_is_killed(mark, monkeypatch):
    monkeypatch.setattr("fedeas_app.processes.STOP_TIMEOUT", 0.5)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True)"
    deaf = subprocess.Popen(
        [sys.executable, "-c", f"{code}; time.sleep(600)"],
        env=os.environ | {MARK: mark}, stdout=subprocess.PIPE,
    )  # fmt: skip
    deaf.stdout.readline()
    end(mark)
    assert deaf.wait(timeout=10) == -signal.SIGKILL
    deaf.stdout.close()


def test_a_guard_that_is_dismissed_leaves_nothing(tmp_path, mark):
    home = tmp_path / "home"
    home.mkdir()
    guard = Guard(mark, str(home))
    guard.dismiss()
    assert not home.exists()
