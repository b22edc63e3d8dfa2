"""A generator that simulated clients train, in real processes."""

import json
from pathlib import Path

import pytest
from PIL import Image
from real_runs import Command

pytestmark = pytest.mark.long

SMALL = (
    "--set=generator=federated", "--set=num-clients=2", "--set=train-samples=100",
    "--set=generator-rounds=2", "--set=generator-epochs=1", "--set=generator-checked=4",
    "--set=rounds=1", "--set=local-epochs=1", "--set=sampler-steps=3", "--set=beta=4.0",
)  # fmt: skip
WEIGHTS = "unet/diffusion_pytorch_model.safetensors"


def test_it_is_trained_recorded_used_and_can_be_had_alone(fedeas: Command, tmp_path: Path) -> None:
    done = fedeas("run", *SMALL, "--set=run-name=whole")
    assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "runs/whole"
    assert len((run / "generator.jsonl").read_text().splitlines()) == 2
    assert json.loads((run / "plan.json").read_text())["synthetic"] > 0
    assert Image.open(run / "samples.png").size[0] > 2 * 8  # some, taken from the clients' caches
    assert not (run / "generator.training").exists()
    words = ("generator", "train", "digits", "--federated", "--out", str(tmp_path / "alone"))
    done = fedeas(*words, *SMALL, f"--set=cache-dir={tmp_path / 'cache'}")
    assert done.returncode == 0, done.stdout + done.stderr
    alone = tmp_path / "alone" / WEIGHTS
    assert alone.read_bytes() == (run / "generator" / WEIGHTS).read_bytes()
