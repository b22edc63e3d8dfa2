"""Full disks and disks that may not be written: one sentence, and nothing half written."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
FULL = "cannot be written (No space left on device); free some space there or name another one."


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs Linux with unshare")
    root = tmp_path_factory.mktemp("disks")
    (root / "shared").mkdir()
    own = [unshare, "--user", "--map-root-user", "--mount"]
    if subprocess.run([*own, "mount", "-t", "tmpfs", "tmpfs", str(root)], check=False).returncode:
        pytest.skip("this machine allows no mounts in a namespace")
    done = subprocess.run(
        [*own, sys.executable, str(TESTS / "small_disks.py"), str(root)],
        env=os.environ | {"PYTHONPATH": str(TESTS)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_checkpoint_that_does_not_fit_leaves_the_old_one(cases: dict[str, Any]) -> None:
    case = cases["checkpoint"]
    assert case["said"].endswith(FULL)
    assert case["names"] == ["checkpoint.safetensors"]
    assert case["kept"] == 1


def test_images_that_do_not_fit_cost_none_of_those_that_do(cases: dict[str, Any]) -> None:
    case = cases["cache"]
    assert case["said"].endswith(FULL)
    assert case["left"] == []
    assert case["made"] == 0
    assert case["same"]


def test_a_record_on_a_full_disk_can_be_gone_on_with(cases: dict[str, Any]) -> None:
    case = cases["record"]
    assert case["said"].endswith(FULL)
    assert case["left"] == []
    assert case["kept"] == 1
    assert case["after"] == "completed"


def test_a_cache_that_has_all_need_not_be_written(cases: dict[str, Any]) -> None:
    assert cases["read_only"]["statuses"] == ["completed", "completed"]


def test_a_cache_that_has_to_be_written_and_cannot_is_told(cases: dict[str, Any]) -> None:
    assert "cannot be written (Read-only file system); let this user" in cases["read_only"]["said"]
