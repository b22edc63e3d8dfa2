"""The manifest: versions and digests that change when what they stand for changes."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from fedeas_app.runs import manifest
from fedeas_app.task import load_task


def described(settings, clients=4):
    return load_task(settings, clients).manifest


def test_versions_are_those_installed(monkeypatch):
    monkeypatch.setattr(manifest, "PACKAGES", ("torch", "numpy", "no-such-package"))
    found = manifest.versions()
    assert found["torch"] == version("torch")
    assert found["numpy"] == version("numpy")
    assert found["no-such-package"] == "not installed"
    ours = {"fedeas", "fedeas-numbers", "python"}
    assert set(found) == ours | {"torch", "numpy", "no-such-package"}


def test_every_pattern_of_number_deciding_code_finds_some():
    root = Path(manifest.__file__).parents[1]
    assert all(list(root.glob(pattern)) for pattern in manifest.NUMBERS)


def test_changed_code_is_another_digest(monkeypatch):
    whole = manifest.sources_digest.__wrapped__()
    assert whole == manifest.sources_digest.__wrapped__()
    monkeypatch.setattr(manifest, "NUMBERS", manifest.NUMBERS[1:])
    assert manifest.sources_digest.__wrapped__() != whole


def test_the_manifest_is_plain_data(configure, fake_generator):
    content = described(configure(policy="fedeas"))
    assert json.loads(json.dumps(content)) == content
    assert content["classes"] == list("0123456789")
    assert content["digests"]["generator"] == fake_generator.digest
    assert described(configure(policy="none"))["digests"]["generator"] == ""
    assert {"flwr", "torch", "numpy"} <= set(content["versions"])


@pytest.mark.parametrize(
    ("keys", "changed"),
    [
        ({}, set()),
        ({"rounds": 9, "learning_rate": 0.1}, set()),
        ({"model": "resnet18"}, {"initial-model"}),
        ({"alpha": 0.3}, {"partition"}),
        ({"test_samples": 61}, {"test"}),
        ({"train_samples": 301}, {"train", "partition"}),
        ({"seed": 1}, {"train", "test", "partition", "initial-model"}),  # subsets are drawn by it
    ],
)
def test_digests_change_with_what_they_stand_for(configure, keys, changed):
    before, after = (described(configure(**k))["digests"] for k in ({}, keys))
    assert {name for name in before if before[name] != after[name]} == changed
