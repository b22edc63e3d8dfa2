"""Cores, memory and disks, within the limits of a container too."""

import shutil
from collections import namedtuple

import psutil
import pytest

from fedeas_app.diagnosis import machine
from fedeas_app.diagnosis.machine import look_at_machine

Memory = namedtuple("Memory", "total available")


@pytest.fixture(autouse=True)
def _four_cores_and_16_gb(monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 4)
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory(16e9, 10e9))


@pytest.fixture
def looked(configure, tmp_path):
    def look(**keys):
        found = look_at_machine(configure(**keys), tmp_path / "cgroup")
        return {finding.subject: finding for finding in found}

    return look


def limit(tmp_path, **files):
    (tmp_path / "cgroup").mkdir()
    for name, text in files.items():
        (tmp_path / "cgroup" / name.replace("_", ".")).write_text(text + "\n")


def test_a_machine_with_room_for_all(looked):
    found = looked()
    assert found["cores"].found == "4 of 8 usable"
    assert found["memory"].found == "10.0 GB of 16.0 GB available"
    assert {one.status for one in found.values()} == {"ok"}


def test_what_a_container_is_limited_to(looked, tmp_path):
    limit(tmp_path, cpu_max="150000 100000", memory_max="2000000000")
    found = looked()
    assert found["cores"].found == "4 of 8 usable, but limited to the time of 1.5"
    assert found["memory"].found == "2.0 GB of 2.0 GB available"
    assert (found["cores"].status, found["memory"].status) == ("warning", "warning")


def test_a_container_without_limits(looked, tmp_path):
    limit(tmp_path, cpu_max="max 100000", memory_max="max")
    assert {one.status for one in looked().values()} == {"ok"}


def test_fewer_workers_need_less_memory(looked, monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory(16e9, 2e9))
    assert looked(threads=1)["memory"].status == "warning"  # 1.3 + 4 * 0.55 = 3.5 GB
    assert "about 3.5 GB" in looked(threads=1)["memory"].advice
    assert looked(threads=4)["memory"].status == "ok"  # 1.3 + 0.55 GB


def test_looking_at_a_place_does_not_make_it(looked, tmp_path):
    place = tmp_path / "a" / "b"
    assert looked(cache_dir=str(place))["cache-dir"].found.startswith(f"{place}, ")
    assert not (tmp_path / "a").exists()


def test_a_place_below_a_file_cannot_be_written(looked, tmp_path):
    (tmp_path / "file").write_text("")
    found = looked(output_dir=str(tmp_path / "file" / "runs"))["output-dir"]
    assert found.status == "problem"
    assert "remove the file that is in its place" in found.advice


def test_a_disk_that_is_nearly_full(looked, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 8, 1))
    assert looked()["cache-dir"].status == "warning"


def test_without_a_configuration_its_places_are_left_out(tmp_path):
    assert [one.subject for one in look_at_machine(None, tmp_path)] == ["cores", "memory"]
