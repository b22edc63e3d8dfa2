import multiprocessing
import os
import re
from pathlib import Path

import pytest

from fedeas_app.errors import UserError
from fedeas_app.files import LAST_USED
from fedeas_app.store import DamagedError, load_or_build


def read(directory: Path) -> str:
    try:
        text = (directory / "value").read_text()
    except OSError as error:
        raise DamagedError(str(error)) from error
    if text == "broken":
        raise DamagedError("it is broken")
    return text


def fill(directory: Path) -> None:
    (directory / "value").write_text("whole")


def test_builds_once(tmp_path):
    fills = []

    def counted(directory: Path) -> None:
        fills.append(directory)
        fill(directory)

    for _ in range(2):
        assert load_or_build(tmp_path / "a", read, counted) == "whole"
    assert len(fills) == 1


def test_use_is_recorded(tmp_path):
    target = tmp_path / "a"
    load_or_build(target, read, fill)
    used = target / LAST_USED
    os.utime(used, (1.0, 1.0))
    load_or_build(target, read, fill)
    assert used.stat().st_mtime > 1.0


@pytest.mark.parametrize("damage", ["emptied", "broken"])
def test_damage_is_repaired(tmp_path, damage):
    target = tmp_path / "a"
    load_or_build(target, read, fill)
    if damage == "emptied":
        (target / "value").unlink()
    else:
        (target / "value").write_text("broken")
    assert load_or_build(target, read, fill) == "whole"
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["a"]


def test_what_cannot_be_repaired_is_said(tmp_path):
    def broken(directory: Path) -> None:
        (directory / "value").write_text("broken")

    message = re.escape(
        f"The cached directory {tmp_path / 'a'} is damaged and cannot be replaced (it is broken); "
        "delete it, or name another cache-dir."
    )
    with pytest.raises(UserError, match=f"^{message}$"):
        load_or_build(tmp_path / "a", read, broken)


def test_unwritable_place_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        UserError,
        match=r"cannot be written .*; remove the file that is in its place or name another one\.$",
    ):
        load_or_build(tmp_path / "file" / "a", read, fill)


def repair(target: Path) -> tuple[str, int]:
    return load_or_build(target, read, fill), os.stat(target).st_ino


def test_many_repair_at_once(tmp_path):
    target = tmp_path / "a"
    target.mkdir()
    with multiprocessing.get_context("fork").Pool(4) as pool:
        found = pool.map(repair, [target] * 16, chunksize=1)
    assert {text for text, _ in found} == {"whole"}
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["a"]
