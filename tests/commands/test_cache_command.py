"""``fedeas cache`` as a user sees it."""

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from full_cache import age, by_kind, copy_of, fill, flip, kinds, only
from typer.testing import CliRunner

from fedeas_app import inventory
from fedeas_app.commands import app
from fedeas_app.commands.cache import size_text
from fedeas_app.files import stamp
from fedeas_app.inventory import removing


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("made") / "cache")


@pytest.fixture
def cache(made, tmp_path):
    return copy_of(made, tmp_path / "cache")


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(name, *arguments, answer=None):
        place = ["--set", f"cache-dir={tmp_path / 'cache'}"]
        return CliRunner().invoke(app, ["cache", name, *place, *arguments], input=answer)

    return invoke


def flat(result):
    return " ".join(result.output.split())


@pytest.mark.parametrize("name", ["ls", "verify", "clear"])
def test_an_absent_cache_is_one_sentence(command, tmp_path, name):
    result = command(name)
    assert result.exit_code == 0
    assert result.output == f"There is no cache at {tmp_path / 'cache'} yet.\n"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("name", ["ls", "verify", "clear"])
def test_an_empty_cache_is_one_sentence(command, tmp_path, name):
    (tmp_path / "cache" / "datasets").mkdir(parents=True)
    result = command(name)
    assert result.exit_code == 0
    assert result.output == f"The cache {tmp_path / 'cache'} is empty.\n"


@pytest.mark.parametrize("name", ["ls", "verify", "clear"])
def test_a_file_is_one_sentence(command, tmp_path, name):
    (tmp_path / "cache").touch()
    result = command(name)
    assert result.exit_code == 1
    assert "is not a directory; name another one." in result.output
    assert result.output.count("\n") == 1


def test_ls_lists(command, cache):
    (cache / "notes [draft].txt").touch()
    result = command("ls")
    assert result.exit_code == 0
    for entry in inventory.take(cache).entries:
        (line,) = (line for line in result.output.splitlines() if f" {entry.short} " in line)
        assert inventory.describe(entry) in line
        assert f"{entry.size:,}" in line
    assert f"6 entries, {size_text(inventory.take(cache).size)}, in {cache}." in result.output
    assert f"left alone: {cache / 'notes [draft].txt'}." in result.output


def test_ls_json_is_json_alone(command, cache):
    plain = json.loads(command("ls", "--json").stdout)
    assert plain["cache-dir"] == str(cache)
    assert [entry["kind"] for entry in plain["entries"]] == list(inventory.KINDS)
    assert plain["bytes"] == sum(entry["bytes"] for entry in plain["entries"])
    assert plain["foreign"] == []


def test_ls_says_when_an_entry_was_last_used(command, cache):
    age(cache, 3)
    for kind in ("datasets", "synthetic"):
        used = by_kind(cache)[kind].path / inventory.LAST_USED
        os.utime(used, (1_900_000_000,) * 2)  # 2030-03-17 17:46:40 UTC
    (by_kind(cache)["partitions"].path / inventory.LAST_USED).unlink()  # of an earlier version
    here = datetime.fromtimestamp(1_900_000_000)  # as the clock on the wall shows it
    shown = command("ls").output
    assert shown.count(f"{here:%Y-%m-%d %H:%M}") == 2
    assert shown.count("not recorded") == 2
    uses = {
        entry["kind"]: entry["last-used"]
        for entry in json.loads(command("ls", "--json").stdout)["entries"]
    }
    assert uses["datasets"] == uses["synthetic"] == "2030-03-17T17:46:40+00:00"
    assert uses["partitions"] is uses["client-states"] is None


def test_ls_json_of_no_cache(command):
    result = command("ls", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["entries"] == []


def test_a_whole_cache_is_said_to_be_whole(command, cache):
    result = command("verify")
    assert result.exit_code == 0
    assert f"All of {cache} is whole (6 entries, " in result.output


def test_damage_is_status_1_and_a_sentence(command, cache):
    flip(only(cache, "datasets/*/images.npy"))
    shard = only(cache, "synthetic/*/*/*.safetensors")
    flip(shard)
    result = command("verify")
    assert result.exit_code == 1
    assert f"damaged: {shard} (its content is not what its name says)" in result.stdout
    assert f"Error: 2 damaged things are in {cache}; fedeas cache verify --repair" in result.stderr
    assert shard.exists()


def test_repair_removes_the_damaged_alone(command, cache):
    flip(only(cache, "datasets/*/images.npy"))
    result = command("verify", "--repair")
    assert result.exit_code == 0
    assert "Removed 1, " in result.output
    assert command("verify").exit_code == 0
    kinds = [entry.kind for entry in inventory.take(cache).entries]
    assert kinds == ["partitions", "generators", "schedulers", "synthetic", "client-states"]


def test_clear_asks(command, cache):
    size = size_text(sum(entry.size for entry in inventory.select(cache)))
    result = command("clear", answer="n\n")
    assert result.exit_code == 0
    assert f"Remove 5 entries ({size}) from {cache}? [y/N]" in flat(result)
    assert "Nothing was removed." in result.output
    assert len(inventory.take(cache).entries) == 6
    assert command("clear", answer="").exit_code == 1  # nobody to ask
    assert len(inventory.take(cache).entries) == 6
    result = command("clear", answer="y\n")
    assert result.exit_code == 0
    assert f"Removed 5, {size}." in result.output
    assert kinds(cache) == ["client-states"]


def test_clear_leaves_what_a_run_may_be_using(command, cache):
    result = command("clear", "--yes")
    assert "Left alone, as a run may be using them: 1 entry of client-states;" in result.output
    result = command("clear", "--kind", "client-states", "--yes")
    assert result.exit_code == 0
    assert "Left alone" not in result.output
    assert kinds(cache) == []


def test_clear_by_kind(command, cache):
    removed = [e.path for e in inventory.take(cache).entries if e.kind in ("datasets", "synthetic")]
    result = command("clear", "--kind", "datasets", "--kind", "synthetic", "--yes")
    assert result.exit_code == 0
    assert all(f"removed: {path}\n" in result.output for path in removed)
    assert kinds(cache) == ["partitions", "generators", "schedulers", "client-states"]
    assert command("clear", "--kind", "everything").exit_code == 2


def test_clear_by_age(command, cache):
    result = command("clear", "--older-than", "1", "--yes")
    assert result.exit_code == 0
    assert result.output == f"Nothing in {cache} is of that kind and age.\n"
    assert command("clear", "--older-than", "-1", "--yes").exit_code == 2
    assert "last used" in flat(command("clear", "--help"))
    age(cache, 3)
    stamp(by_kind(cache)["synthetic"].path)
    of = ["--kind", "synthetic", "--kind", "partitions"]
    assert command("clear", "--older-than", "2", *of, "--yes").exit_code == 0
    assert kinds(cache) == ["datasets", "generators", "schedulers", "synthetic", "client-states"]


def test_clear_leaves_and_mentions_what_is_foreign(command, cache):
    (cache / "notes.txt").write_text("keep")
    result = command("clear", "--yes")
    assert f"left alone: {cache / 'notes.txt'}." in result.output
    assert (cache / "notes.txt").read_text() == "keep"


def test_a_cache_that_cannot_be_written_is_a_sentence(command, cache, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(removing.tempfile, "mkdtemp", refuse)
    result = command("clear", "--yes")
    assert result.exit_code == 1
    assert "Error: 5 could not be removed, among them" in result.stderr
    assert "(Permission denied)" in result.stderr


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB (1,000 bytes)"),
     (2_500_000, "2.5 MB (2,500,000 bytes)"), (10**15, "1000.0 TB (1,000,000,000,000,000 bytes)")],
)  # fmt: skip
def test_sizes_are_readable(size, text):
    assert size_text(size) == text


def test_listing_needs_no_torch(cache):
    code = (
        "import sys; from pathlib import Path; import fedeas_app.commands.cache as c;"
        f"c.ls(['cache-dir={cache}'], False); sys.exit('torch' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
