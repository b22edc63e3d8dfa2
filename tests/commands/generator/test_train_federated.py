"""``fedeas generator train --federated`` as a user sees it; the simulation itself is a fake."""

import json
from contextlib import nullcontext
from importlib import import_module

import pytest
import tomli_w
from filelock import FileLock

from fedeas_app.checking import check
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
        flat = {k: v for k, v in settings.to_flat().items() if k not in ("run-name", "resume")}
        (run / "config.toml").write_text(tomli_w.dumps(flat))
        (run / "summary.json").write_text('{"status": "failed"}')
        line = {"round": 1, "loss": 0.5}
        (run / "generator.jsonl").write_text(json.dumps(line) + "\n")
        observe(run)
        (run / "generator" / "card.json").write_text("{}")

    monkeypatch.setattr(module, "execute", execute)
    monkeypatch.setattr(
        module, "check_elsewhere", lambda settings: nullcontext(lambda: check(settings))
    )
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


def test_what_the_run_found_out_goes_with_it(train, broken_off, tmp_path):
    run = broken_off / "run"
    (run / "summary.json").write_text('{"status": "completed"}')
    (run / "generator-copies.json").write_text('{"copies": 2, "checked": 320}')
    (run / "privacy.json").write_text('{"epsilon": 4.381}')
    result = train(tmp_path / "a")
    words = "Trained in 1 round, loss 0.5000, 2 of 320 images copy one of a client's, ε = 4.38; "
    assert words in result.stdout
    kept = {path.name for path in (tmp_path / "a").iterdir()}
    assert kept >= {"generator.jsonl", "generator-copies.json", "privacy.json"}


@pytest.fixture
def broken_off(train, simulated, monkeypatch, tmp_path):
    """A training that was interrupted, and its directory."""
    whole = module.execute

    def breaks(*given):
        whole(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "execute", breaks)
        result = train(tmp_path / "a")
    assert result.exit_code == 130
    assert "the same command goes on" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.training"]
    return tmp_path / "a.training"


@pytest.mark.usefixtures("broken_off")
def test_the_same_command_goes_on(train, simulated, tmp_path):
    assert train(tmp_path / "a").exit_code == 0
    assert [settings.resume for settings in simulated] == [False, True]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.fixture
def not_put_in_place(broken_off):
    """One that was completed, and ended before its generator was moved to the target."""
    (broken_off / "run" / "summary.json").write_text('{"status": "completed"}')
    return broken_off


@pytest.mark.usefixtures("not_put_in_place")
def test_a_generator_that_is_finished_is_not_trained_again(train, simulated, tmp_path):
    assert train(tmp_path / "a").exit_code == 0
    assert len(simulated) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a" / "card.json").is_file()


@pytest.mark.usefixtures("not_put_in_place")
def test_another_one_that_is_finished_is_not_taken_for_it(train, tmp_path):
    result = train(tmp_path / "a", "--batch-size", 32)
    assert result.exit_code == 1
    assert "generator-batch-size is 32, but the run in" in result.stderr


def test_another_command_is_refused_before_anything_starts(train, simulated, broken_off, tmp_path):
    result = train(tmp_path / "a", "--batch-size", 32)
    assert result.exit_code == 1
    assert "generator-batch-size is 32, but the run in" in result.stderr
    assert f"To begin anew, remove {broken_off}." in result.stderr
    assert len(simulated) == 1


def test_pooled_images_do_not_take_its_place(command, broken_off, tmp_path):
    result = command("train", "--out", tmp_path / "a", "--set", "dataset=digits", "--steps", 50)
    assert result.exit_code == 1
    assert f"{broken_off} holds an unfinished training with --federated;" in result.stderr
    assert (broken_off / "run" / "config.toml").is_file()


def test_it_does_not_take_the_place_of_pooled_images(train, simulated, tmp_path):
    checkpoint = tmp_path / "a.training" / "state.safetensors"
    checkpoint.parent.mkdir()
    checkpoint.touch()
    result = train(tmp_path / "a")
    assert result.exit_code == 1
    assert "holds an unfinished training on pooled images; repeat its command" in result.stderr
    assert not simulated
    assert checkpoint.is_file()


def test_another_process_may_be_training_it(train, simulated, tmp_path):
    (tmp_path / "a.training").mkdir()
    with FileLock(tmp_path / "a.training" / ".lock"):
        result = train(tmp_path / "a")
    assert result.exit_code == 1
    assert "Another process is training" in result.stderr
    assert not simulated


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--steps", 100), "--steps is for pooled images; with --federated generator-rounds"),
        (("--processes", 2), "the clients share the work"),
        (("--samples-every", 2), "generator-samples-every"),
        (("--preset", "huge"), "generator-preset is 'huge'"),
        (("--unshuffle", 3), "set image-size to a multiple of"),
        (("--set", "dataset=/nowhere"), "/nowhere"),
        (("--set", "sampler-steps=2000"), "at most 995"),
    ],
)
def test_what_is_refused_leaves_nothing(train, simulated, tmp_path, option, words):
    result = train(tmp_path / "a", *option)
    assert result.exit_code == 1
    assert words in result.stderr
    assert not simulated
    assert not list(tmp_path.iterdir())


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


def test_privacy_asks_for_what_the_generator_needs_alone(train, simulated, tmp_path):
    """Neither the classifier's clip-norm nor a strategy that privacy allows: none is trained."""
    keys = ("privacy=central", "noise-multiplier=1", "generator-clip-norm=2", "strategy=fedoui")
    result = train(tmp_path / "g", *(word for key in keys for word in ("--set", key)))
    assert result.exit_code == 0, result.stderr
    assert simulated[0].generator_clip_norm == 2.0
