"""``fedeas doctor`` as it is called."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedeas_app import diagnosis
from fedeas_app.commands import app
from fedeas_app.diagnosis import Section
from fedeas_app.diagnosis.findings import ok, problem, warning

FINE = [Section("devices", [ok("device", "cpu"), warning("Ray sees", "[nothing]", "Look.")])]
BAD = [*FINE, Section("Flower", [problem("flwr run", "", "Stop.")])]


def doctor(*words):
    return CliRunner().invoke(app, ["doctor", *words])


@pytest.fixture
def seen(monkeypatch):
    """What the diagnosis is of; its findings are made up."""
    calls = []

    def diagnose(settings, mistakes):
        calls.append((settings, mistakes))
        return FINE if settings else BAD

    monkeypatch.setattr(diagnosis, "diagnose", diagnose)
    return calls


def test_a_table_with_a_section_for_each_subject(seen):
    done = doctor("--set", "alpha=0.3")
    assert done.exit_code == 0
    assert [line.split() for line in done.stdout.splitlines() if line.strip()] == [
        ["devices"], ["ok", "device", "cpu"], ["warning", "Ray", "sees", "[nothing]"], ["Look."],
        ["No", "problem,", "1", "warning."],
    ]  # fmt: skip
    assert seen[0][0].alpha == 0.3


def test_mistakes_are_passed_on_a_sentence_each_and_fail(seen):
    done = doctor("--set", "alhpa=1", "--set", "rounds=many")
    assert done.exit_code == 1
    assert "1 problem, 1 warning." in done.stdout
    settings, mistakes = seen[0]
    assert settings is None
    assert len(mistakes) == 2


def test_json_names_no_user(seen, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setattr(diagnosis, "diagnose", lambda *_: [Section("x", [ok("y", "/home/ada/z")])])
    done = doctor("--json")
    assert json.loads(done.stdout) == {
        "problems": 0, "warnings": 0,
        "sections": {"x": [{"subject": "y", "status": "ok", "found": "~/z", "advice": ""}]},
    }  # fmt: skip


def test_torch_that_cannot_be_imported_is_told_without_a_traceback(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise OSError('libcudart is missing')")
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}
    command = [Path(sys.executable).with_name("fedeas"), "doctor", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    versions = {one["subject"]: one for one in json.loads(done.stdout)["sections"]["versions"]}
    assert "libcudart is missing" in versions["torch"]["advice"]


def test_help_needs_no_torch():
    code = "import sys, fedeas_app.commands; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
