"""``fedeas generator train --federated`` as a user sees it; the simulation itself is a fake."""

import json
from importlib import import_module

import pytest

from fedeas_app.errors import UserError

module = import_module("fedeas_app.commands.generator.federated")


@pytest.fixture
def simulated(monkeypatch):
    """Leave what a run leaves, and keep the settings that it was given."""
    given = []

    def execute(settings, expected, observe):
        given.append(settings)
        run = settings.output_path / settings.run_name
        (run / "generator").mkdir(parents=True, exist_ok=True)
        (run / "config.toml").touch()
        line = {"round": 1, "loss": 0.5}
        (run / "generator.jsonl").write_text(json.dumps(line) + "\n")
        observe(run)
        (run / "generator" / "card.json").write_text("{}")

    monkeypatch.setattr(module, "execute", execute)
    return given


@pytest.fixture
def train(command):
    def invoke(target, *options):
        return command("train", "--federated", "--out", target, "--set", "seed=3", *options)

    return invoke


def test_the_generator_lands_where_it_was_asked_for(train, simulated, tmp_path):
    result = train(tmp_path / "a b", "--preset", "small", "--label-dropout", 0.25)
    assert result.exit_code == 0, result.stderr
    (settings,) = simulated
    assert (settings.generator, settings.generator_only) == ("federated", True)
    assert (settings.generator_preset, settings.generator_label_dropout) == ("small", 0.25)
    assert (settings.num_clients, settings.seed, settings.resume) == (10, 3, False)
    assert [path.name for path in tmp_path.iterdir()] == ["a b"]
    assert (tmp_path / "a b" / "card.json").is_file()
    assert f"generator={tmp_path / 'a b'}" in result.stdout


def test_the_same_command_goes_on(train, simulated, monkeypatch, tmp_path):
    whole = module.execute

    def breaks(settings, expected, observe):
        whole(settings, expected, observe)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "execute", breaks)
    result = train(tmp_path / "a")
    assert result.exit_code == 130
    assert "the same command goes on" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.training"]
    monkeypatch.setattr(module, "execute", whole)
    assert train(tmp_path / "a").exit_code == 0
    assert [settings.resume for settings in simulated] == [False, True]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--steps", 100), "--steps is for pooled images; with --federated generator-rounds"),
        (("--processes", 2), "the clients share the work"),
        (("--samples-every", 2), "generator-samples-every"),
    ],
)
def test_options_of_pooled_images_are_refused(train, simulated, tmp_path, option, words):
    result = train(tmp_path / "a", *option)
    assert result.exit_code == 1
    assert words in result.stderr
    assert not simulated


def test_a_target_that_exists_is_left_alone(train, simulated, tmp_path):
    (tmp_path / "a").mkdir()
    result = train(tmp_path / "a")
    assert result.exit_code == 1
    assert "exists already" in result.stderr
    assert not simulated


def test_why_a_run_failed_is_said(train, simulated, monkeypatch, tmp_path):
    def fails(*_):
        raise UserError("The run failed: no paper.")

    monkeypatch.setattr(module, "execute", fails)
    result = train(tmp_path / "a")
    assert result.exit_code == 1
    assert "no paper" in result.stderr
