"""Files that somebody else may have written, read within bounds."""

import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest

from fedeas_app import reading


def test_text_is_read_up_to_a_limit(tmp_path):
    (tmp_path / "a").write_text("β" * 10)
    assert reading.read_text(tmp_path / "a", most=20) == "β" * 10
    with pytest.raises(ValueError, match="larger than 0 MiB"):
        reading.read_text(tmp_path / "a", most=19)


def test_a_device_without_an_end_is_no_trap():
    with pytest.raises(ValueError, match="it is larger than 64 MiB"):
        reading.read_text(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (reading.parse_json, "[" * 100_000),
        (reading.parse_json, '{"a":' * 100_000),
        (reading.parse_toml, "a = " + "[" * 100_000),
        (reading.parse_toml, "a = " + "{a=" * 100_000),
    ],
)
def test_deep_nesting_is_an_error_and_no_recursion(parse, text):
    with pytest.raises(ValueError, match="nested too deeply"):
        parse(text)


def test_what_is_sound_is_read(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"a": [1, None]}))
    assert reading.read_json(tmp_path / "a.json") == {"a": [1, None]}
    assert reading.parse_toml("a = [1, 2]") == {"a": [1, 2]}


@pytest.mark.parametrize("shape", [(2, 3), (0,), (0, 4, 4, 1), ()])
def test_arrays_are_read_as_stored(tmp_path, shape):
    values = np.arange(np.prod(shape, dtype=int), dtype=np.int64).reshape(shape)
    np.save(tmp_path / "a.npy", values)
    found = reading.read_array(tmp_path / "a.npy")
    assert found.dtype == np.int64
    assert np.array_equal(found, values)
    assert not found.flags.writeable


def forged(text):
    data = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(data)) + data


def archive():
    stream = io.BytesIO()
    np.savez(stream, a=np.zeros(1))
    return stream.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"", b"nonsense", archive(), forged("{'descr': ("), forged("{'descr': '<i8'}"),
        forged("(" * 110),
        forged("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,)}"),
        forged("{'descr': '<i8', 'fortran_order': False, 'shape': (9999999999999999999,)}"),
        forged("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"),
    ],
)  # fmt: skip
def test_arrays_that_are_damaged_or_forged_are_an_error(tmp_path, data):
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises((ValueError, OSError)):
        reading.read_array(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("name", "inside"),
    [("a", True), ("a/b.json", True), ("..", False), ("a/../../b", False), ("/a", False)],
)
def test_what_stays_below_a_directory(name, inside):
    assert reading.is_inside(name) is inside
