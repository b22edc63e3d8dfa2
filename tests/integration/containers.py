"""A container engine for the tests, and an image that borrows this machine's packages."""

import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from real_runs import BIN, ROOT

_SETTING_UP = ROOT.parent / "shared/tools/container-engine.sh"
_APT_SOURCES = "/etc/apt/sources.list.d/debian.sources"
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_BORROWED = "/opt/borrowed"
_DOCKERFILE = f"""
ARG BASE_IMAGE
FROM ${{BASE_IMAGE}}
RUN packages=$(python -c 'import site; print(site.getsitepackages()[0])') \
    && mkdir -p "$packages" && echo {_BORROWED} > "$packages/borrowed.pth"
COPY bin/ /usr/local/bin/
"""
_USERS = (
    *("certificates", "sites", "superlink", "executor", "registration", "operator"),
    *("site-0", "site-1", "site-2"),
)


@contextmanager
def engine() -> Iterator[dict[str, str]]:
    """Give the environment in which ``docker`` works; skip where no engine can run."""
    if platform.system() != "Linux":
        pytest.skip("this machine's packages would not run in a Linux container")
    if _works("docker", "info") and _works("docker", "compose", "version"):
        yield os.environ | {"BASE_IMAGE": f"python:{_PYTHON}-slim-bookworm"}
    elif not _SETTING_UP.is_file() or os.geteuid() != 0:
        pytest.skip("there is no Docker, and it cannot be set up here")
    else:
        yield from _own_engine()


def _own_engine() -> Iterator[dict[str, str]]:
    up = _say(str(_SETTING_UP), "up")
    if up.returncode:
        pytest.skip(f"no container engine could be started: {(up.stdout + up.stderr)[-500:]}")
    try:
        yield os.environ | _exports() | {"BUILD_APT_SOURCES": _APT_SOURCES}
    finally:
        if "engine already up" not in up.stdout:
            _say(str(_SETTING_UP), "stop")


def borrow_packages(image: str, scratch: Path, environment: Mapping[str, str]) -> None:
    """Build an image whose Python finds this machine's packages, once they are mounted."""
    scripts = scratch / "bin"
    scripts.mkdir(parents=True)
    (scratch / "Dockerfile").write_text(_DOCKERFILE)
    for script in [*BIN.glob("flwr*"), *BIN.glob("flower-*")]:
        _, body = script.read_text().split("\n", 1)
        (scripts / script.name).write_text(f"#!/usr/bin/env python\n{body}")
        (scripts / script.name).chmod(0o755)
    words = ("build", "--tag", image, "--build-arg", "BASE_IMAGE", str(scratch))
    done = _say("docker", *words, environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    words = ("run", "--rm", image, "python", "-c", "import sys; print(sys.version_info[:2])")
    done = _say("docker", *words, environment=environment)
    if done.stdout.strip() != str(sys.version_info[:2]):
        pytest.skip(f"Python is {done.stdout.strip()} in the base image, and {_PYTHON} here")


def mount_borrowed() -> str:
    """Return a compose file that mounts them."""
    packages = f"{sysconfig.get_path('purelib')}:{_BORROWED}:ro"
    return json.dumps({"services": {name: {"volumes": [packages]} for name in _USERS}})


def _works(*words: str) -> bool:
    return shutil.which(words[0]) is not None and _say(*words).returncode == 0


def _exports() -> dict[str, str]:
    words = _say(str(_SETTING_UP), "env").stdout.split()
    return dict(word.split("=", 1) for word in words if "=" in word)


def _say(
    *words: str, environment: Mapping[str, str] = os.environ
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
