"""What the benchmarks measure against does the same work."""

import floor
import pytest
import tomli_w
import torch
from fake_grid import FakeGrid
from flwr.app import Context, RecordDict
from safetensors.torch import load_file

import server_app


@pytest.fixture
def settings(configure):
    return configure(strategy="fedavg", rounds=2, local_epochs=2, alpha=0.5)


def test_a_run_and_the_plain_loop_come_to_the_same_bits(settings, tmp_path):
    grid = FakeGrid(settings)
    server_app.main(grid, Context(1, 0, {}, RecordDict(), settings.to_flat()))
    config = tmp_path / "config.toml"
    config.write_text(tomli_w.dumps(settings.to_flat()))
    floor.main(config, tmp_path)
    ours = load_file(settings.output_path / settings.run_name / "model.safetensors")
    plain = load_file(tmp_path / "floor.safetensors")
    assert ours.keys() == plain.keys()
    assert all(torch.equal(ours[name], plain[name]) for name in plain)
