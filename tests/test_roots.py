"""No path that somebody else wrote leads out of the directory that it is meant for."""

import io
import json
import os

import datasets
import numpy as np
import pytest
import torch
from PIL import Image

from fedeas_app.client_state import Address, ClientState
from fedeas_app.comparison.reading import read_comparison
from fedeas_app.data import load_split
from fedeas_app.data.decode import open_image
from fedeas_app.errors import UserError
from fedeas_app.generators import pretrained
from fedeas_app.generators.pipeline_parts import PipelineDirectory
from fedeas_app.settings import Settings
from fedeas_app.store import DamagedError

OUTSIDE = ["../x", "/etc/passwd", "a/../../x", "..", "x/y"]


@pytest.mark.parametrize("name", [*OUTSIDE, "~", ".hidden", "a\0b"])
def test_a_run_lies_in_the_output_directory(name):
    with pytest.raises(UserError, match="run-name is"):
        Settings.parse({"run-name": name})


@pytest.mark.parametrize("key", [*OUTSIDE, "", "0" * 31 + "/"])
def test_a_client_keeps_its_state_in_its_cache(tmp_path, key):
    state = ClientState(tmp_path / "cache", Address(key, 1), 0)
    for use in (lambda: state.load(torch.device("cpu")), lambda: state.save(1, {})):
        with pytest.raises(UserError, match="not 32 hexadecimal digits"):
            use()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_comparison_reads_its_own_cells(tmp_path, name):
    arm = {"label": "a", "values": {}, "baseline": None, "cells": [{"name": name, "seed": 0}]}
    index = {"varied": [], "baseline": None, "target": None, "failed": {}, "arms": [arm]}
    (tmp_path / "comparison.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match="is no name of a cell"):
        read_comparison(tmp_path)


def test_an_unpacked_generator_is_held_against_its_own_files(tmp_path):
    whole = pretrained.unpack("digits", tmp_path)
    sums = json.loads((whole / "sha256.json").read_text())
    (whole / "sha256.json").write_text(json.dumps(sums | {"../../../dev/zero": "0"}))
    with pytest.raises(DamagedError, match="changed after unpacking"):
        pretrained.require_whole(whole)


@pytest.mark.parametrize("part", [*OUTSIDE, "x" * 101])
def test_the_parts_of_a_pipeline_lie_in_it(tmp_path, part):
    index = {"_class_name": "DDPMPipeline", part: ["diffusers", "UNet2DModel"]}
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match="has a part of the name"):
        PipelineDirectory(tmp_path, "'it'")


@pytest.mark.parametrize("inside", [True, False])
def test_a_table_names_files_of_its_own_directory_alone(tmp_path, inside):
    (tmp_path / "set").mkdir()
    place = tmp_path / "set" if inside else tmp_path
    for number in range(10):
        Image.fromarray(np.full((4, 4), number, np.uint8)).save(place / f"{number}.png")
    rows = {
        "image": [{"bytes": None, "path": str(place / f"{n}.png")} for n in range(10)],
        "label": [0, 1] * 5,
    }
    as_told = datasets.Features(
        {
            "image": {"bytes": datasets.Value("binary"), "path": datasets.Value("string")},
            "label": datasets.Value("int64"),
        }
    )
    datasets.Dataset.from_dict(rows, as_told).to_parquet(tmp_path / "set" / "train.parquet")
    settings = Settings.parse({"dataset": str(tmp_path / "set"), "cache-dir": str(tmp_path / "c")})
    if inside:
        assert len(load_split(settings, "train").labels) == 8
        return
    with pytest.raises(UserError, match="lies outside of"):
        load_split(settings, "train")


def test_a_pipe_is_no_image(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(UserError, match="is no file"):
        open_image("a", tmp_path / "a.png")


@pytest.mark.parametrize("side", [8_001, 60_000])
def test_a_small_file_that_unpacks_to_gigabytes_is_refused_before_it_does(side):
    stream = io.BytesIO()
    Image.new("1", (side, side)).save(stream, "PNG")
    assert len(stream.getvalue()) < 500_000
    with pytest.raises(UserError, match="megapixels are allowed"):
        open_image("a", stream.getvalue())
