"""The app as Flower users run it: ``flwr run . --stream``, and as Flower's hub checks it."""

import importlib
import json
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from real_runs import BIN, ROOT


@pytest.fixture
def flwr(marked_environment: dict[str, str], tmp_path: Path):
    """Run ``flwr`` with a managed SuperLink on a port of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment = marked_environment | {"FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": port}
    # Installing dependencies must stay on: the point is that it installs nothing.
    environment.pop("FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION", None)

    def command(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(BIN / "flwr"), *words],
            cwd=tmp_path, env=environment | {"UV_OFFLINE": "1"}, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip

    return command


def test_flwr_run_works_with_flowers_defaults_and_installs_nothing(
    flwr, tmp_path: Path, cache: Path
) -> None:
    places = f'cache-dir="{cache}" output-dir="{tmp_path / "runs"}" run-name="r"'
    config = f"rounds=2 sampler-steps=5 {places}"
    done = flwr("run", str(ROOT), "--stream", "--run-config", config)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No additional application dependencies needed installation" in done.stdout
    runs = json.loads(flwr("ls", "--format", "json").stdout)["runs"]
    assert runs[0]["status"] == "finished:completed", done.stdout
    summary = json.loads((tmp_path / "runs/r/summary.json").read_text())
    assert summary["status"] == "completed"
    plan = json.loads((tmp_path / "runs/r/plan.json").read_text())
    assert [client["partition-id"] for client in plan["clients"]] == [0, 1]


def test_flwr_run_names_the_number_of_supernodes_that_a_preset_needs(
    flwr, tmp_path: Path, cache: Path
) -> None:
    config = tmp_path / "run.toml"
    config.write_text(
        (ROOT / "conf/digits.toml").read_text()
        + f'cache-dir = "{cache}"\noutput-dir = "{tmp_path / "runs"}"\n'
    )
    done = flwr("run", str(ROOT), "--stream", "--run-config", str(config))
    assert "num-clients is 10, but 2 SuperNodes are connected" in done.stdout
    assert "Traceback" not in done.stdout
    assert json.loads(flwr("ls", "--format", "json").stdout)["runs"][0]["status"] == (
        "finished:failed"
    )


def test_flwr_build_makes_a_bundle_that_the_hub_would_accept(
    flwr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = tmp_path / "fedeas"
    tracked = subprocess.run(
        ["git", "ls-files"],  # noqa: S607  # whatever git this machine has
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    for file in tracked:
        (app / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, app / file)
    done = flwr("build", "--app", str(app))
    assert done.returncode == 0, done.stdout + done.stderr
    publish = importlib.import_module("flwr.cli.app_cmd.publish")  # the name is a function's too
    publish._validate_app_name(app.name, "Flower App directory name")
    publish._validate_files(publish._collect_file_paths(app))
