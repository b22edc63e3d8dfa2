"""The demo of docker/: what its files say and, where an engine can run, the demo itself."""

import json
import os
import re
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from containers import borrow_packages, engine, mount_borrowed
from real_runs import BIN, ROOT

from fedeas_app.commands.plan import label_counts
from fedeas_app.forecast import forecast
from fedeas_app.settings import Settings

DOCKER = ROOT / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
SITES = ("site-0", "site-1", "site-2")
DAEMONS = ("superlink", "executor", "proxy", *SITES)
USER = "10001"


def on(network: str) -> set[str]:
    return {name for name, service in SERVICES.items() if network in service.get("networks", [])}


def volumes(name: str) -> set[str]:
    return {mount.partition(":")[0] for mount in SERVICES[name].get("volumes", [])}


def test_a_site_is_alone_with_the_proxy() -> None:
    for site in SITES:
        assert SERVICES[site]["networks"] == [site]
        assert on(site) == {site, "proxy"}
        assert COMPOSE["networks"][site] == {"internal": True}


def test_nothing_but_the_proxy_can_be_reached_from_outside() -> None:
    assert on("outside") == {"proxy"}
    assert COMPOSE["networks"]["server"] == {"internal": True}
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["proxy"]
    assert all(
        "networks" in service or service["network_mode"] == "none" for service in SERVICES.values()
    )


def test_a_site_holds_its_own_key_images_and_cache_alone() -> None:
    for number, site in enumerate(SITES):
        assert volumes(site) == {site, f"cache-{number}"}
    assert [name for name in SERVICES if "authority" in volumes(name)] == ["certificates"]


@pytest.mark.parametrize("name", DAEMONS)
def test_what_keeps_running_is_looked_after(name: str) -> None:
    service = SERVICES[name]
    assert (service["init"], service["restart"]) == (True, "unless-stopped")
    assert service["cap_drop"] == ["ALL"]
    assert service["healthcheck"]["test"]
    assert service["depends_on"]


@pytest.mark.parametrize("name", ["superlink", "executor", "site-0"])
def test_the_options_are_flowers(name: str) -> None:
    words = " ".join([*SERVICES[name]["entrypoint"], *SERVICES[name]["command"]])
    (tool,) = re.findall(r"\bflower-\w+", words)
    said = subprocess.run([str(BIN / tool), "--help"], capture_output=True, text=True, check=True)
    options = re.findall(r"(?<=\s)--[\w-]+", words)
    assert options
    assert [option for option in options if not re.search(rf"{option}\b", said.stdout)] == []


def test_gpus_are_for_the_sites() -> None:
    overlay = yaml.safe_load((DOCKER / "compose.gpu.yaml").read_text(encoding="utf-8"))
    assert tuple(overlay["services"]) == SITES
    for service in overlay["services"].values():
        (device,) = service["deploy"]["resources"]["reservations"]["devices"]
        assert device["driver"] == "nvidia"


@pytest.mark.parametrize(
    ("docker", "complaint"),
    [
        (None, "docker is not installed"),
        ('[ "$1" != compose ]', "docker has no compose plugin"),
        ('[ "$1" != info ]', "The Docker daemon does not answer"),
    ],
)
@pytest.mark.parametrize("what", ["up", "down"])
def test_what_is_missing_is_told_in_one_sentence(
    tmp_path: Path, docker: str | None, complaint: str, what: str
) -> None:
    for tool in ("bash", "env", "sed"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    if docker is not None:
        (tmp_path / "docker").write_text(f"#!/usr/bin/env bash\n{docker}\n")
        (tmp_path / "docker").chmod(0o755)
    done = demo(what, environment={"PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(complaint)
    assert done.stderr.count("\n") == 1


def test_without_a_word_the_demo_says_how_it_is_used() -> None:
    done = demo(environment=dict(os.environ))
    assert done.returncode == 2
    assert "docker/demo down" in done.stderr


def demo(
    *words: str, environment: dict[str, str], where: Path = ROOT
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(DOCKER / "demo"), *words],
        cwd=where, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=3000, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where docker works, and has an image with the dependencies that costs nothing to make."""
    scratch = tmp_path_factory.mktemp("docker")
    with engine() as given:
        project = f"fedeas-test-{uuid.uuid4().hex[:6]}"
        borrowing = f"{project}-dependencies"
        borrow_packages(borrowing, scratch / "image", given)
        mounts = scratch / "mounts.json"
        mounts.write_text(mount_borrowed())
        mirror = ["compose.mirror.yaml"] if "BUILD_PIP_CONF" in given else []
        made = given | {
            "COMPOSE_PROJECT_NAME": project,
            "COMPOSE_FILE": os.pathsep.join(["compose.yaml", *mirror, str(mounts)]),
            "DEPENDENCIES": borrowing,
            "FEDEAS_PORT": "0",
        }
        try:
            yield made
        finally:
            demo("down", environment=made)
            run(made, "docker", "rmi", borrowing)


@pytest.mark.long  # it builds images and waits for Flower's polls: minutes
def test_the_demo_is_built_run_and_removed(environment: dict[str, str], tmp_path: Path) -> None:
    done = demo("up", "result", environment=environment, where=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Plan (policy fedeas, β = 12)" in done.stdout
    (record,) = (tmp_path / "result").iterdir()
    assert f"Report: result/{record.name}/report.html" in done.stdout
    look_at(record)
    strangers_are_kept_out(environment, tmp_path)
    sites_are_apart(environment)
    assert demo("down", environment=environment).returncode == 0
    assert left_over(environment) == []


def look_at(record: Path) -> None:
    """The plan is the simulation's: the sites hold what its clients would."""
    settings = Settings.parse({"dataset": "digits", "num-clients": 3, "alpha": 0.1})
    expected = forecast(label_counts(settings), settings.policy, settings.beta)
    plan = json.loads((record / "plan.json").read_text())
    found = [(client["num-examples"], client["synthetic"]) for client in plan["clients"]]
    real, synthetic = expected.counts.sum(axis=1), expected.allocation.sum(axis=1)
    assert found == list(zip(real.tolist(), synthetic.tolist(), strict=True))
    lines = [json.loads(line) for line in (record / "rounds.jsonl").read_text().splitlines()]
    for line in lines[1:]:
        assert [one["partition"] for one in line["participants"]] == [0, 1, 2]
    assert lines[-1]["accuracy"] > 0.5  # ten classes
    assert json.loads((record / "summary.json").read_text())["status"] == "completed"
    assert "<html" in (record / "report.html").read_text()


def strangers_are_kept_out(environment: dict[str, str], scratch: Path) -> None:
    compose(environment, "cp", "proxy:/etc/fedeas/ca.crt", str(scratch / "ca.crt"))
    address = compose(environment, "port", "proxy", "8443").stdout.strip()
    for path in ("/health", "/v1/control/list-runs", "/v1/runtime/x", "/v1/fleet/../control/x"):
        assert ask(address, path, scratch / "ca.crt") == (404, True), path
    assert ask(address, "/v1/fleet/activate-node", scratch / "ca.crt")[1] is False


def ask(address: str, path: str, authority: Path) -> tuple[int, bool]:
    """Return the status of an answer, and whether it is the proxy's own."""
    trusting = ssl.create_default_context(cafile=str(authority))
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting)
    )
    try:
        with opener.open(f"https://{address}{path}", timeout=60) as answer:
            return answer.status, b"<center>nginx" in answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, b"<center>nginx" in refusal.read()


def sites_are_apart(environment: dict[str, str]) -> None:
    """Each runs without root, reaches the proxy alone, and has no key but its own."""
    for name in DAEMONS:
        assert compose(environment, "exec", name, "id", "-u").stdout.strip() == USER
    assert compose(environment, "exec", "site-0", "ls", "/site").stdout.split() == [
        "ca.crt", "images", "key",
    ]  # fmt: skip
    assert connects(environment, "proxy", 8443)
    for name, port in (("superlink", 8000), ("site-1", 9094)):
        for address in (name, *addresses(environment, name)):
            assert not connects(environment, address, port), address


def connects(environment: dict[str, str], host: str, port: int) -> bool:
    """Tell whether the first site gets through to a place."""
    words = f"import socket; socket.create_connection(({host!r}, {port}), timeout=3)"
    return (
        run(
            environment, "docker", "compose", "exec", "-T", "site-0", "python", "-c", words
        ).returncode
        == 0
    )


def addresses(environment: dict[str, str], name: str) -> list[str]:
    container = compose(environment, "ps", "-q", name).stdout.strip()
    template = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"
    found = run(environment, "docker", "inspect", "-f", template, container).stdout.split()
    assert found
    return found


def left_over(environment: dict[str, str]) -> list[str]:
    project = environment["COMPOSE_PROJECT_NAME"]
    ours = ("--filter", f"label=com.docker.compose.project={project}", "-q")
    kinds = (("ps", "-a"), ("volume", "ls"), ("network", "ls"))
    found = [run(environment, "docker", *kind, *ours).stdout for kind in kinds]
    images = [
        run(environment, "docker", "images", "-q", f"{project}-{name}").stdout
        for name in ("app", "proxy")
    ]
    return " ".join([*found, *images]).split()


def compose(environment: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    no_terminal = ("-T",) if words[0] == "exec" else ()
    done = run(environment, "docker", "compose", words[0], *no_terminal, *words[1:])
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def run(environment: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, cwd=DOCKER, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
