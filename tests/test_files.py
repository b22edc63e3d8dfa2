"""Files whole or absent, also when several processes or errors interfere."""

import hashlib
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedeas_app import files
from fedeas_app.errors import UserError


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "a.bin"
    files.write_bytes(path, b"one")
    files.write_bytes(path, b"two\x00")
    assert path.read_bytes() == b"two\x00"
    assert names(tmp_path) == ["a.bin"]


def test_text_is_utf8(tmp_path):
    files.write_text(tmp_path / "a.txt", "β\n")
    assert (tmp_path / "a.txt").read_bytes() == b"\xce\xb2\n"


@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, old, step):
    path = tmp_path / "a.bin"
    if old is not None:
        path.write_bytes(old)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space"):
        files.write_bytes(path, b"new")
    assert names(tmp_path) == ([] if old is None else ["a.bin"])
    assert old is None or path.read_bytes() == old


def test_what_is_written_can_be_read_by_others_as_the_umask_says(tmp_path):
    files.write_bytes(tmp_path / "ours", b"")
    (tmp_path / "plain").write_bytes(b"")
    files.build_directory(tmp_path / "built", lambda _: None)
    (tmp_path / "made").mkdir()
    mode = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names(tmp_path)}
    assert mode["ours"] == mode["plain"]
    assert mode["built"] == mode["made"]


def test_a_directory_is_built_once(tmp_path):
    calls = []

    def fill(directory):
        calls.append(directory)
        assert not list(directory.iterdir())
        (directory / "a").write_text("x")

    target = tmp_path / "deep" / "er" / "target"
    assert files.build_directory(target, fill) == target
    assert files.build_directory(target, fill) == target
    assert len(calls) == 1
    assert names(target) == ["a"]


def test_a_failed_build_leaves_nothing_and_can_be_tried_again(tmp_path):
    def fail(directory):
        (directory / "half").write_text("x")
        raise RuntimeError("stop")

    target = tmp_path / "target"
    with pytest.raises(RuntimeError, match="stop"):
        files.build_directory(target, fail)
    assert [name for name in names(tmp_path) if not name.endswith(".lock")] == []
    files.build_directory(target, lambda directory: (directory / "a").touch())
    assert names(target) == ["a"]


BUILDER = """
import os, sys, time
from pathlib import Path
from fedeas_app.files import build_directory

def fill(directory):
    (log / str(os.getpid())).touch()
    (directory / "a").write_text("first half")
    time.sleep(0.2)
    (directory / "b").write_text("second half")

target, log = Path(sys.argv[1]), Path(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
build_directory(target, fill)
assert sorted(os.listdir(target)) == ["a", "b"]
"""


def test_several_processes_build_a_directory_once(tmp_path):
    log = tmp_path / "log"
    log.mkdir()
    command = [sys.executable, "-c", BUILDER, str(tmp_path / "target"), str(log)]
    builders = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for builder in builders:
        assert builder.stdout.readline() == "ready\n"
    for builder in builders:
        builder.stdin.write("\n")
        builder.stdin.flush()
    for builder in builders:
        builder.communicate(timeout=60)
    assert [builder.returncode for builder in builders] == [0] * 4
    assert len(names(log)) == 1


def test_a_place_below_a_file_cannot_be_written(tmp_path):
    obstacle = tmp_path / "file"
    obstacle.touch()
    with pytest.raises(UserError, match="cannot be written"):
        files.make_directory(obstacle)
    with pytest.raises(UserError, match=r"file/x cannot be written \(Not a directory\)"):
        files.make_directory(obstacle / "x")
    with pytest.raises(UserError, match="cannot be written"):
        files.build_directory(obstacle / "x" / "y", lambda _: None)


def test_make_directory_leaves_it_empty(tmp_path):
    directory = files.make_directory(tmp_path / "a" / "b")
    assert directory == tmp_path / "a" / "b"
    assert files.make_directory(directory) == directory
    assert names(directory) == []


def test_checksums(tmp_path):
    data = bytes(range(256)) * 5_000
    path = tmp_path / "a"
    path.write_bytes(data)
    assert files.sha256(b"abc").startswith("ba7816bf8f01cfea414140de5dae2223b00361a396177a9c")
    assert files.sha256(memoryview(data)) == hashlib.sha256(data).hexdigest()
    assert files.file_sha256(Path(path)) == hashlib.sha256(data).hexdigest()


def test_a_directory_being_filled_is_not_seen_under_its_name(tmp_path):
    target = tmp_path / "target"

    def fill(directory):
        (directory / "a").touch()
        assert directory.parent == tmp_path
        assert not target.exists()

    files.build_directory(target, fill)
    assert names(target) == ["a"]


def test_a_disk_that_fills_up_while_building_is_said(tmp_path):
    def fill(directory):
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match=r"No space left on device\); free some space there"):
        files.build_directory(tmp_path / "a", fill)
    assert not (tmp_path / "a").exists()


# --- a directory that is to be new ---


def test_a_new_directory_may_have_parents_that_are_new(tmp_path):
    target = tmp_path / "a" / "b"
    assert files.require_new(target) == target
    assert target.parent.is_dir()
    assert not target.exists()


def test_the_tilde_is_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert files.require_new(Path("~/a")) == tmp_path / "a"
    (tmp_path / "a").mkdir()
    with pytest.raises(UserError, match=f"^{tmp_path / 'a'} exists already; name another"):
        files.require_new(Path("~/a"))


def test_a_home_directory_of_nobody_is_a_sentence():
    with pytest.raises(UserError, match=r"^The directory ~no-such-user/a names an unknown home"):
        files.require_new(Path("~no-such-user/a"))


@pytest.mark.parametrize(
    ("number", "advice"),
    [(2, "make it again"), (13, "let this user write there"), (17, "remove the file"),
     (20, "remove the file"), (28, "free some space"), (30, "let this user write there")],
)  # fmt: skip
def test_advice_fits_the_error(number, advice):
    text = files.cannot_write(Path("/a"), OSError(number, "Reason"))
    assert text.startswith(f"The directory /a cannot be written (Reason); {advice}")


# --- a file that is going to be written ---


def test_a_file_that_can_be_written_leaves_no_trace_before_it_is(tmp_path):
    files.require_writable(tmp_path / "a.html")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a.html").write_text("old")
    files.require_writable(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text() == "old"


@pytest.mark.parametrize(
    ("name", "words"), [("", "is a directory; name a file in it"), ("none/a", "make it again")]
)
def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path, name, words):
    with pytest.raises(UserError, match=words):
        files.require_writable(tmp_path / name)


def test_a_use_that_cannot_be_recorded_is_no_error(tmp_path):
    files.stamp(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


# --- what killed writers left behind ---

LEFT = f".summary.json.{'0' * 31}a"


def test_what_killed_writers_left_is_swept_away_and_nothing_else(tmp_path):
    kept = [".lock", ".summary.json", "summary.json", f"x.{'0' * 32}", f".{'0' * 32}", ".a.xyz"]
    for name in [*kept, LEFT]:
        (tmp_path / name).touch()
    (tmp_path / f".b.{'0' * 32}").mkdir()
    files.sweep(tmp_path)
    assert names(tmp_path) == sorted([*kept, f".b.{'0' * 32}"])


def test_what_may_still_be_written_stays(tmp_path):
    for name, age in ((LEFT, 50), (f".other.{'1' * 32}", 150)):
        (tmp_path / name).touch()
        then = time.time() - age
        os.utime(tmp_path / name, (then, then))
    files.sweep(tmp_path, 100)
    assert names(tmp_path) == [LEFT]


def test_a_sweep_of_nothing_is_no_error(tmp_path):
    files.sweep(tmp_path / "none", 100)


def test_a_build_clears_away_what_killed_ones_left_of_the_same(tmp_path):
    mine, others = tmp_path / f".a.{'0' * 32}", tmp_path / f".ab.{'0' * 32}"
    for left in (mine, others):
        left.mkdir()
        (left / "half").touch()
    files.build_directory(tmp_path / "a", lambda directory: (directory / "x").touch())
    assert not mine.exists()
    assert (others / "half").exists()


def test_what_cannot_be_written_is_told(tmp_path):
    with (
        pytest.raises(UserError, match=r"cannot be written \(No space left\); free some space"),
        files.told(tmp_path),
    ):
        raise OSError(28, "No space left")


def test_every_file_of_a_directory_is_made_to_outlive_a_loss_of_power(tmp_path, monkeypatch):
    (tmp_path / "unet").mkdir()
    paths = {tmp_path / "card.json", tmp_path / "unet" / "weights"}
    for path in paths:
        path.write_bytes(b"1")
    synced = []
    monkeypatch.setattr("os.fsync", lambda number: synced.append(os.fstat(number).st_ino))
    files.sync(tmp_path)
    assert sorted(synced) == sorted(path.stat().st_ino for path in paths)
