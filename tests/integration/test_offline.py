"""With local data and a local generator nothing is even tried to be sent off the machine."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from real_runs import BIN

from fedeas_app.commands.launcher import _proxies

# A network of its own whose only way out is a cable to nowhere: what is tried is counted, be it the
# question who 192.0.2.53 is, which answers for all names.
OUTSIDE = """
set -e
ip link set lo up
ip link add out type veth peer name nowhere
for end in out nowhere; do echo 1 > /proc/sys/net/ipv6/conf/$end/disable_ipv6; done
ip address add 192.0.2.1/24 dev out
ip link set out up
ip link set nowhere up
ip route add default via 192.0.2.254 dev out
mount --bind "$1" /etc/resolv.conf
shift
set +e
"$@"
status=$?
echo "sent: $(sed -n 's/^ *out: *//p' /proc/net/dev | awk '{print $10}')"
exit $status
"""
NAMES = "nameserver 192.0.2.53\noptions timeout:1 attempts:1\n"
LOOK_UP = "import socket\ntry: socket.getaddrinfo('example.org', 80)\nexcept OSError: pass"
TRUTH = [sys.executable, "-c", LOOK_UP]


def outside(
    tmp_path: Path, command: list[str], environment: dict[str, str] | None = None
) -> tuple["subprocess.CompletedProcess[str]", int]:
    """Run a command where there is no network; return how it ended, and the packets it sent."""
    (tmp_path / "resolv.conf").write_text(NAMES, encoding="utf-8")
    own = [shutil.which("unshare") or "unshare", "--user", "--map-root-user", "--net", "--mount"]
    done = subprocess.run(
        [*own, "sh", "-c", OUTSIDE, "sh", str(tmp_path / "resolv.conf"), *command],
        env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    *_, last = done.stdout.splitlines() or [""]
    return done, int(last.removeprefix("sent: ")) if last.startswith("sent: ") else -1


@pytest.fixture(autouse=True)
def _network_of_its_own(tmp_path: Path) -> None:
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("needs Linux with unshare and ip")
    done, sent = outside(tmp_path, ["true"])
    if sent < 0:
        pytest.skip(f"this machine allows no network namespaces: {done.stderr.strip()}")


def test_what_is_tried_is_counted(tmp_path: Path) -> None:
    assert outside(tmp_path, ["true"])[1] == 0
    assert outside(tmp_path, TRUTH)[1] > 0


def test_ray_asks_no_cloud_whether_it_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = "from ray._common.usage.usage_lib import get_cloud_from_metadata_requests as ask; ask()"
    monkeypatch.setenv("no_proxy", "169.254.169.254,example.org")
    assert outside(tmp_path, [sys.executable, "-c", ask])[1] > 0
    proxies = _proxies()
    assert "example.org" in proxies["no_proxy"]
    told = f"import os; os.environ.update({proxies!r}); {ask}"  # a shell would drop such names
    done, sent = outside(tmp_path, [sys.executable, "-c", told])
    assert (done.returncode, sent) == (0, 0)


def test_the_main_job_sends_nothing(tmp_path: Path, marked_environment: dict[str, str]) -> None:
    """From an empty cache to the end: decoding, generating, training, the record and its page."""
    places = [f"--set=cache-dir={tmp_path / 'cache'}", f"--set=output-dir={tmp_path / 'runs'}"]
    small = ["--set=rounds=2", "--set=num-clients=4", "--set=sampler-steps=5", "--set=run-name=r"]
    words = ["fedeas", "run", "digits", *small, *places]
    # As a user has it: none of what the tests switch off otherwise.
    switches = ("FLWR_TELEMETRY_ENABLED", "FLWR_DISABLE_UPDATE_CHECK", "RAY_USAGE_STATS_ENABLED")
    environment = {k: v for k, v in marked_environment.items() if k not in switches}
    done, sent = outside(tmp_path, [str(BIN / words[0]), *words[1:]], environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Test accuracy" in done.stdout
    assert sent == 0
    report = [str(BIN / "fedeas"), "report", str(tmp_path / "runs/r")]
    assert outside(tmp_path, report, environment)[1] == 0
