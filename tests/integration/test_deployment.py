"""Real machines as far as one has them: TLS, keys, processes that die, and who is kept out."""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from deployed import (
    DEPLOY,
    Federation,
    Loopback,
    exec_start,
    federation,
    free_port,
    network,
    node_config,
    unit_environment,
    wait_until,
)
from real_runs import BIN, MARK, processes, rounds_of

SMALL = ("--set=policy=none", "--set=strategy=fedavg", "--set=train-samples=300")
KEY = "--auth-supernode-private-key"
UNITS = sorted(path.name for path in DEPLOY.glob("*.service"))
NGINX, SYSTEMD = shutil.which("nginx"), shutil.which("systemd-analyze")


def test_two_sites_train_and_strangers_are_kept_out(
    tmp_path: Path, marked_environment: dict[str, str]
) -> None:
    with federation(tmp_path / "f", marked_environment, Loopback()) as made:
        made.make_certificates("site-0", "site-1", "stranger")
        made.start_server()
        made.register("site-0", "site-1")
        for number in range(2):
            made.start_node(f"site-{number}", node_config(number, 2, tmp_path / "caches"))
        made.start_node("stranger", node_config(2, 3, tmp_path / "caches"))
        made.start_node("keyless", node_config(2, 3, tmp_path / "caches"), without=[KEY])
        refuse_plain_text(made)
        run = made.spawn(
            *("fedeas", "run", "--superlink", "site", *SMALL, "--set=rounds=1"),
            *("--set=run-name=r", f"--set=output-dir={tmp_path}"),
        )
        assert made.processes["stranger"].wait(120) != 0
        assert "2004" in made.log("stranger")
        assert made.processes["keyless"].wait(120) != 0
        assert "2001" in made.log("keyless")
        said, complaint = run.communicate(timeout=600)
        assert run.returncode == 0, said + complaint
    assert f"Record: {tmp_path}/r on the server's machine." in said
    (line,) = rounds_of(tmp_path / "r")[1:]
    assert [participant["partition"] for participant in line["participants"]] == [0, 1]
    assert line["failures"] == {}
    assert not processes(marked_environment[MARK])


def refuse_plain_text(made: Federation) -> None:
    """Neither a client without TLS gets an answer, nor one that trusts another authority."""
    with pytest.raises(OSError, match=r"reset|closed|disconnected|aborted|empty"):
        urllib.request.urlopen(f"http://{made.address}/health", timeout=10)
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(f"https://{made.address}/health", timeout=10)
    trusting = ssl.create_default_context(cafile=str(made.certificates / "ca.crt"))
    with urllib.request.urlopen(
        f"https://{made.address}/health", timeout=10, context=trusting
    ) as answer:
        assert answer.status == 200


@pytest.mark.long  # the heartbeat of a node that died lapses after a minute
def test_a_site_that_dies_is_missed_by_name_and_the_run_goes_on(
    tmp_path: Path, marked_environment: dict[str, str]
) -> None:
    with network() as machines, federation(tmp_path / "f", marked_environment, machines) as made:
        sites = [f"site-{number}" for number in range(3)]
        made.make_certificates(*sites)
        made.start_server()
        made.register(*sites)
        for number, site in enumerate(sites):
            made.start_node(site, node_config(number, 3, tmp_path / "caches"))
        made.start_node(
            "plain",
            node_config(3, 4, tmp_path / "caches"),
            without=[KEY, "--root-certificates"],
            plus=["--insecure"],
        )
        run = made.spawn(
            *("fedeas", "run", "--superlink", "site", *SMALL, "--set=rounds=3"),
            *("--set=num-clients=3", "--set=run-name=r", f"--set=output-dir={tmp_path}"),
        )
        wait_until(lambda: len(rounds_of(tmp_path / "r")) == 2, 600, lambda: made.log("superexec"))
        os.killpg(made.processes["site-2"].pid, signal.SIGKILL)
        said, complaint = run.communicate(timeout=600)
        assert run.returncode == 0, said + complaint
        assert made.processes["plain"].poll() is None  # it tries for ever, and never gets in
        assert "SuperNode ID" not in made.log("plain")
    first, second, third = rounds_of(tmp_path / "r")[1:]
    assert [participant["partition"] for participant in first["participants"]] == [0, 1, 2]
    for line in (second, third):
        assert [participant["partition"] for participant in line["participants"]] == [0, 1]
        assert list(line["failures"]) == ["2"]
    assert json.loads((tmp_path / "r/summary.json").read_text())["status"] == "completed"
    assert not processes(marked_environment[MARK])


def test_ctrl_c_leaves_a_run_going_and_a_stopped_run_is_no_success(
    tmp_path: Path, marked_environment: dict[str, str]
) -> None:
    with federation(tmp_path / "f", marked_environment, Loopback()) as made:
        made.make_certificates()
        made.start_server()
        words = ("fedeas", "run", "--superlink", "site", *SMALL, f"--set=output-dir={tmp_path}")
        run = made.spawn(*words, "--set=run-name=r")
        wait_until((tmp_path / "r/config.toml").is_file, 120, lambda: made.log("superexec"))
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=60)
        assert run.returncode == 130
        (run_id,) = re.findall(r"End it: flwr stop (\d+) site\.", said)
        assert made.command("flwr", "stop", run_id, "site").returncode == 0
        unknown = made.command("fedeas", "run", "--superlink", "sight")
        assert (unknown.returncode, unknown.stderr.count("\n")) == (1, 1)
        assert "'sight'" in unknown.stderr
        assert "it has site" in unknown.stderr
    assert not processes(marked_environment[MARK])


@pytest.mark.parametrize("unit", UNITS)
def test_the_options_of_the_units_are_flowers(unit: str) -> None:
    words = exec_start(unit)
    tool = BIN / Path(words[0]).name
    known = subprocess.run([str(tool), "--help"], capture_output=True, text=True, check=True).stdout
    options = [word for word in words if word.startswith("--")]
    assert options
    assert [option for option in options if not re.search(rf"{option}\b", known)] == []


@pytest.mark.parametrize("unit", UNITS)
def test_services_find_what_flower_starts_by_name(unit: str) -> None:
    first, *_ = unit_environment(unit)["PATH"].split(":")
    assert first == str(Path(exec_start(unit)[0]).parent)


@pytest.mark.skipif(SYSTEMD is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for unit in UNITS:
        text = (DEPLOY / unit).read_text(encoding="utf-8")
        (tmp_path / unit).write_text(text.replace("/opt/fedeas/.venv/bin", str(BIN)))
    named = [str(tmp_path / unit.replace("@", "@site-0")) for unit in UNITS]
    done = subprocess.run(
        [str(SYSTEMD), "verify", *named], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("unit", UNITS)
def test_units_start_again_for_ever(unit: str) -> None:
    text = (DEPLOY / unit).read_text(encoding="utf-8")
    for line in ("Restart=always", "StartLimitIntervalSec=0", "ProtectSystem=strict"):
        assert f"\n{line}\n" in text
    assert re.search(r"\nRestartSec=\d+\n", text)


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_the_proxy_lets_nodes_through_and_nothing_else(
    tmp_path: Path, marked_environment: dict[str, str]
) -> None:
    with federation(tmp_path / "f", marked_environment, Loopback()) as made:
        made.make_certificates()
        made.start_server()
        with proxy(tmp_path, made, marked_environment) as port:
            paths = ["/health", "/v1/control/list-runs", "/v1/runtime/x", "/"]
            hidden = [f"/v1/fleet/{way}control/list-runs" for way in ("../", "%2e%2e/", "..%2f")]
            for path in [*paths, *hidden, "//v1//control/list-runs"]:
                assert ask(made, port, path) == (404, True), path
            assert ask(made, port, "/v1/fleet/activate-node")[1] is False
            assert ask(made, made.port, "/health") == (200, False)
            large = b"x" * 6 * 2**20  # a piece of a model and what is around it
            assert ask(made, port, "/v1/fleet/push-object", large)[1] is False


@contextlib.contextmanager
def proxy(root: Path, made: Federation, environment: dict[str, str]) -> Iterator[int]:
    """Start nginx with the shipped configuration, on a port of its own."""
    port = free_port()
    changes = {
        "listen 8443 ssl": f"listen 127.0.0.1:{port} ssl",
        "    listen [::]:8443 ssl;\n": "",
        "/etc/fedeas": str(made.certificates),
        "127.0.0.1:8000": made.address,
    }
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    places = "".join(
        f"{name}_temp_path {root}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = root / "nginx.conf"
    config.write_text(
        f"daemon off; master_process off; pid {root}/nginx.pid; events {{}} "
        f"http {{ access_log off; {places}\n{text}}}"
    )
    with subprocess.Popen(
        [str(NGINX), "-e", str(root / "nginx.log"), "-c", str(config)], env=environment
    ) as nginx:
        try:
            wait_until(lambda: (root / "nginx.pid").is_file() or nginx.poll() is not None, 20)
            assert nginx.poll() is None, (root / "nginx.log").read_text()
            yield port
        finally:
            nginx.kill()


def ask(made: Federation, port: int, path: str, data: bytes | None = None) -> tuple[int, bool]:
    """Return the status of an answer, and whether it is the proxy's own."""
    trusting = ssl.create_default_context(cafile=str(made.certificates / "ca.crt"))
    line = http.client.HTTPSConnection("localhost", port, context=trusting, timeout=30)
    line.request("POST" if data else "GET", path, body=data)
    answer = line.getresponse()
    body = answer.read()
    line.close()
    return answer.status, b"<center>nginx" in body
