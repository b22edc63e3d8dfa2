"""What a configuration asks for, and whether it is here."""

import pytest

from fedeas_app.diagnosis.job import look_at_job
from fedeas_app.diagnosis.torch_view import TorchView
from fedeas_app.generators import hub

THERE = TorchView(build="CPU build")


@pytest.fixture
def looked(configure):
    def look(torch=THERE, **keys):
        return {finding.subject: finding for finding in look_at_job(configure(**keys), torch)}

    return look


def test_the_main_job_is_fine_and_leaves_nothing(looked, tmp_path):
    found = looked(policy="fedeas", cache_dir=str(tmp_path / "cache"))
    assert {one.status for one in found.values()} == {"ok"}
    assert found["generator"].found == "digits, shipped with the app"
    assert found["policy"].found == "fedeas, β = 12.0"
    assert list(tmp_path.iterdir()) == []


def test_a_generator_that_nobody_needs_is_not_looked_at(looked):
    found = looked(policy="none", generator="/nowhere")
    assert found["generator"].found == "not needed"


def test_a_generator_that_is_not_there(looked):
    found = looked(policy="fedeas", generator="/nowhere")["generator"]
    assert found.status == "problem"
    assert "/nowhere" in found.advice


def test_a_generator_that_does_not_fit_the_images(looked):
    found = looked(policy="fedeas", image_size=16)["generator"]
    assert found.status == "problem"


def test_a_device_that_is_not_there_is_not_held_against_the_generator(looked):
    assert looked(policy="fedeas", device="cuda:99")["generator"].status == "ok"


def test_a_generator_of_the_hub_is_looked_for_and_not_fetched(looked, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(hub, "is_fetched", lambda settings: False)
    keys = {"policy": "fedeas", "generator": "owner/name"}
    found = looked(**keys, generator_revision="0" * 40)["generator"]
    assert (found.status, found.found) == ("warning", "owner/name, not on this machine")
    assert "needs generator-revision" in looked(**keys)["generator"].advice


@pytest.mark.parametrize("name", ["pool", "federated"])
def test_generators_that_are_not_files(looked, name):
    pool = {"pool_dataset": "digits"} if name == "pool" else {}
    found = looked(policy="fedeas", generator=name, **pool)
    assert found["generator"].status == "ok"
    assert ("pool-dataset" in found) == (name == "pool")


def test_a_rule_that_needs_more_clients(looked):
    found = looked(strategy="krum", malicious_clients=5)["strategy"]
    assert found.status == "problem"


def test_a_tracker_that_is_not_installed(looked, monkeypatch):
    monkeypatch.setattr("fedeas_app.runs.tracking.find_spec", lambda module: None)
    assert "tracker" not in looked()
    assert looked(tracker="mlflow")["tracker"].status == "problem"


def test_where_torch_is_broken_the_rest_is_left(looked):
    found = looked(torch=TorchView(broken="no library"))
    assert list(found) == ["policy", "the rest"]
    assert found["the rest"].status == "warning"
