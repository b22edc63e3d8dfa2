"""From a file, a preset's name and ``--set`` to settings."""

import os
from pathlib import Path

import pytest

from fedeas_app.commands import configuration
from fedeas_app.commands.configuration import load_settings, parse_override
from fedeas_app.errors import UserError


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")
    return Path(path)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("alpha=0.5", "alpha", 0.5),
        ("alpha = 1", "alpha", 1),
        ("augment=true", "augment", True),
        ("dataset=digits", "dataset", "digits"),
        ('dataset="digits"', "dataset", "digits"),
        ("dataset=uoft-cs/cifar10", "dataset", "uoft-cs/cifar10"),
        ("run-name=", "run-name", ""),
        ("run-name=2025-01-31", "run-name", "2025-01-31"),
        ("run-name=07", "run-name", "07"),
        ("dataset=a=b", "dataset", "a=b"),
        ("beta=auto", "beta", "auto"),
        ("seed=" + "9" * 5_000, "seed", "9" * 5_000),
        ("alpha=[1]", "alpha", "[1]"),
        ("dataset=[1", "dataset", "[1"),
    ],
)
def test_an_override_is_toml_or_text(text, key, value):
    assert parse_override(text) == (key, value)
    assert type(parse_override(text)[1]) is type(value)


@pytest.mark.parametrize("text", ["alpha", "", "=3", " =3"])
def test_an_override_needs_a_key_and_a_value(text):
    with pytest.raises(UserError, match="KEY=VALUE, not"):
        parse_override(text)


def test_later_wins_and_files_come_first():
    path = write("a.toml", "alpha = 3\nrounds = 5\n")
    parsed = load_settings(path, ["alpha=1", "alpha=2"])
    assert (parsed.alpha, parsed.rounds) == (2.0, 5)


def test_a_simulation_has_ten_clients_unless_told():
    assert load_settings(None, None).num_clients == 10
    assert load_settings(None, ["num-clients=auto"]).num_clients == 10
    assert load_settings(None, ["num-clients=3"]).num_clients == 3


@pytest.mark.parametrize("name", ["digits", "digits.toml"])
def test_a_preset_by_its_name(name):
    assert load_settings(Path(name), None).dataset == "digits"


def test_a_file_comes_before_a_preset():
    write("digits.toml", "alpha = 7.0\n")
    assert load_settings(Path("digits.toml"), None).alpha == 7.0


def test_a_directory_does_not_hide_a_preset():
    Path("digits").mkdir()
    assert load_settings(Path("digits"), None).alpha == 0.1


@pytest.mark.parametrize("name", ["mine/digits.toml", "digits.yaml", "nothing", "../digits"])
def test_a_mistyped_path_never_becomes_a_preset(name):
    with pytest.raises(
        UserError, match=r"There is no configuration file .* the presets are cifar10, "
    ):
        load_settings(Path(name), None)


@pytest.mark.parametrize("name", sorted(path.stem for path in Path(
    configuration.app_root() / "conf").glob("*.toml")))  # fmt: skip
def test_every_preset_can_be_run_by_name(name):
    load_settings(Path(name), None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cache-dir", "cache"),
        ("output-dir", "./runs"),
        ("output-dir", "../runs"),
        ("dataset", "./images"),
        ("dataset", "../images"),
        ("generator", "./gen"),
        ("generator", "../gen"),
        ("generator", "./trained/gen"),
        ("generator", "trained/gen/"),
        ("generator", "all/trained/gen"),
    ],
)
def test_relative_paths_are_taken_from_here(tmp_path, key, value):
    flat = load_settings(None, [f"{key}={value}"]).to_flat()
    assert Path(flat[key]).is_absolute()
    assert os.path.normpath(flat[key]) == os.path.normpath(tmp_path / value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cache-dir", "~/cache"),
        ("cache-dir", "/cache"),
        ("dataset", "digits"),
        ("dataset", "uoft-cs/cifar10"),
        ("dataset", "~/images"),
        ("generator", "digits"),
        ("generator", "~/gen"),
        ("generator", "/some/gen"),
        ("generator", "facebook/DiT-XL-2-256"),
    ],
)
def test_names_and_absolute_paths_are_left_alone(key, value):
    assert load_settings(None, [f"{key}={value}"]).to_flat()[key] == value


def test_a_generator_that_is_here_is_no_hub_id(tmp_path):
    assert load_settings(None, ["generator=trained/gen"]).generator == "trained/gen"
    Path("trained/gen").mkdir(parents=True)
    assert load_settings(None, ["generator=trained/gen"]).generator == str(tmp_path / "trained/gen")


def test_a_wrong_value_is_told():
    with pytest.raises(UserError, match=r"alpha is 'x'; a number > 0 is allowed\."):
        load_settings(None, ["alpha=x"])


def test_a_key_that_takes_text_alone_gets_text() -> None:
    assert configuration.parse_override("run-name=7") == ("run-name", "7")
    assert configuration.parse_override("run-name=true") == ("run-name", "true")
    assert configuration.parse_override("beta=7") == ("beta", 7)
