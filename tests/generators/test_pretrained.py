"""Generators as text files: whole, small, and half as precise."""

import base64
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from fedeas_app.errors import UserError
from fedeas_app.generators import pretrained

WEIGHTS = "unet/diffusion_pytorch_model.safetensors"
MIB = 1024 * 1024


@pytest.fixture
def packed(copied, tmp_path):
    """A generator big enough for several parts, packed as ``mini`` below a root."""
    weights = load_file(copied / WEIGHTS)
    ballast = torch.randn(900_000, generator=torch.Generator().manual_seed(0))
    save_file(weights | {"ballast": ballast}, copied / WEIGHTS)
    root = tmp_path / "shipped"
    assert pretrained.pack(copied, "mini", root) == root / "mini"
    return root


def test_every_file_fits_in_an_app_bundle(packed):
    files = sorted(path.name for path in (packed / "mini").iterdir())
    assert files == ["index.json", "part-0.json", "part-1.json", "part-2.json"]  # 1.8 MB by 0.72
    for path in (packed / "mini").iterdir():
        assert path.stat().st_size < MIB
        assert json.loads(path.read_bytes().decode("utf-8"))


def test_what_is_unpacked_is_what_was_packed_at_half_precision(packed, copied, tmp_path):
    target = pretrained.unpack("mini", tmp_path / "cache", packed)
    assert target.parent == tmp_path / "cache"
    before, after = load_file(copied / WEIGHTS), load_file(target / WEIGHTS)
    assert after.keys() == before.keys()
    for name, tensor in before.items():
        assert after[name].dtype == torch.float32
        assert torch.equal(after[name], tensor.to(torch.float16).to(torch.float32))
    for file in ("unet/config.json", "scheduler/scheduler_config.json", "card.json"):
        assert json.loads((target / file).read_text()) == json.loads((copied / file).read_text())


def test_the_unpacked_generator_draws(trained, tmp_path, ddpm):
    pretrained.pack(trained, "mini", tmp_path / "shipped")
    target = pretrained.unpack("mini", tmp_path / "cache", tmp_path / "shipped")
    generator = ddpm(target)
    assert generator.num_classes == 3
    assert generator.digest != ddpm(trained).digest  # rounded weights are other weights


def test_unpacking_again_changes_nothing(packed, tmp_path):
    target = pretrained.unpack("mini", tmp_path / "cache", packed)
    before = (target / WEIGHTS).stat().st_mtime_ns
    assert pretrained.unpack("mini", tmp_path / "cache", packed) == target
    assert (target / WEIGHTS).stat().st_mtime_ns == before


def test_packing_fewer_parts_leaves_no_old_ones(packed, copied, tmp_path):
    weights = load_file(copied / WEIGHTS)
    del weights["ballast"]
    save_file(weights, copied / WEIGHTS)
    pretrained.pack(copied, "mini", packed)
    assert sorted(path.name for path in (packed / "mini").iterdir()) == [
        "index.json",
        "part-0.json",
    ]
    target = pretrained.unpack("mini", tmp_path / "cache", packed)
    assert load_file(target / WEIGHTS).keys() == weights.keys()


def test_other_weights_are_unpacked_beside(packed, copied, tmp_path):
    one = pretrained.unpack("mini", tmp_path / "cache", packed)
    weights = load_file(copied / WEIGHTS)
    save_file({name: tensor + 1 for name, tensor in weights.items()}, copied / WEIGHTS)
    pretrained.pack(copied, "mini", packed)
    assert pretrained.unpack("mini", tmp_path / "cache", packed) != one


def _swap_bytes(path):
    raw = bytearray(base64.b64decode(json.loads(path.read_text())["base64"]))
    raw[1_000] ^= 1
    path.write_text(json.dumps({"base64": base64.b64encode(raw).decode()}))


@pytest.mark.parametrize("file", ["part-1.json", "index.json"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_text(""),
        lambda path: path.write_text("{}"),
        lambda path: path.write_text("[]"),
        lambda path: path.write_bytes(b"\xff"),
        lambda path: path.write_text(path.read_text()[:-100]),
    ],
    ids=["missing", "empty", "no keys", "a list", "not text", "cut off"],
)
def test_a_damaged_file_is_told_and_nothing_is_left(packed, tmp_path, file, damage):
    damage(packed / "mini" / file)
    refuse(packed, tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        _swap_bytes,
        lambda path: path.write_text('{"base64": "x"}'),
        lambda path: path.write_text('{"base64": 3}'),
    ],
    ids=["another byte", "not base64", "a number"],
)
def test_a_damaged_part_is_told_and_nothing_is_left(packed, tmp_path, damage):
    damage(packed / "mini" / "part-1.json")
    refuse(packed, tmp_path)


def refuse(packed, tmp_path):
    with pytest.raises(UserError, match="shipped generator 'mini' is damaged; install"):
        pretrained.unpack("mini", tmp_path / "cache", packed)
    assert list((tmp_path / "cache").glob("mini-*")) == []


def test_a_cache_that_cannot_be_written(packed, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        pretrained.unpack("mini", tmp_path / "file" / "cache", packed)


@pytest.mark.parametrize("name", pretrained.names())
def test_what_is_shipped_is_whole(name, tmp_path, ddpm):
    for path in (pretrained._ROOT / name).iterdir():
        assert path.stat().st_size < MIB
        path.read_bytes().decode("utf-8")
    generator = ddpm(pretrained.unpack(name, tmp_path))
    assert generator.num_classes > 1


@pytest.mark.parametrize("file", ["unet/config.json", "sha256.json"])
@pytest.mark.parametrize("damage", ["remove", "change"])
def test_a_damaged_unpacked_generator_is_unpacked_again(tmp_path, file, damage):
    directory = pretrained.unpack("digits", tmp_path)
    before = (directory / "unet/config.json").read_bytes()
    if damage == "remove":
        (directory / file).unlink()
    else:
        (directory / file).write_text("{}")
    assert (pretrained.unpack("digits", tmp_path) / "unet/config.json").read_bytes() == before
