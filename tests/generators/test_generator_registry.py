"""From the settings to a generator (named apart from the strategies' registry)."""

from importlib.metadata import EntryPoint

import numpy as np
import pytest

from fedeas_app.errors import UserError
from fedeas_app.generators import open_generator, pretrained, registry
from fedeas_app.generators.ddpm import Ddpm
from fedeas_app.settings import Settings


@pytest.fixture
def settings_for(tmp_path):
    def make(generator, **keys):
        return Settings.parse(
            {"generator": str(generator), "cache-dir": str(tmp_path / "cache"), "device": "cpu"}
            | {key.replace("_", "-"): value for key, value in keys.items()}
        )

    return make


@pytest.fixture
def shipped(trained, tmp_path, monkeypatch):
    """Ship the trained generator as ``mini`` and nothing else."""
    root = tmp_path / "shipped"
    monkeypatch.setattr(pretrained, "_ROOT", root)
    monkeypatch.setattr(pretrained.unpack, "__defaults__", (root,))
    pretrained.pack(trained, "mini", root)
    return root


def test_a_directory_is_opened_with_the_settings(trained, settings_for):
    settings = settings_for(trained, sampler="ddim", sampler_steps=3)
    generator = open_generator(settings)
    assert generator.digest == _ddim(trained).digest
    assert generator.name == repr(str(trained))


def test_a_shipped_name_is_unpacked_below_the_cache(shipped, settings_for):
    settings = settings_for("mini", sampler="ddim", sampler_steps=3)
    generator = open_generator(settings)
    assert generator.image_shape == (8, 8, 1)
    assert open_generator(settings).digest == generator.digest
    assert len(list((settings.cache_path / "generators").glob("mini-*"))) == 1
    assert generator.generate(np.array([0]), np.array([0])).shape == (1, 8, 8, 1)


def test_home_is_understood(trained, settings_for, monkeypatch):
    monkeypatch.setenv("HOME", str(trained.parent))
    assert open_generator(settings_for("~/generator")).num_classes == 3


@pytest.mark.parametrize("name", ["nothing", "/nowhere/at/all"])
def test_an_unknown_generator_is_named(shipped, settings_for, name):
    with pytest.raises(UserError) as caught:
        open_generator(settings_for(name))
    assert repr(name) in str(caught.value)
    assert "fedeas generator train" in str(caught.value)


def test_only_whole_directories_are_shipped_names(shipped):
    (shipped / ".DS_Store").touch()
    (shipped / "__pycache__").mkdir()
    assert pretrained.names() == ["mini"]


def _ddim(directory):
    keys = {
        "sampler": "ddim",
        "sampler-steps": 3,
        "device": "cpu",
        "cache-dir": str(directory.parent),
    }
    return Ddpm(directory, Settings.parse(keys))


class Points(list):
    """Stands for `importlib.metadata.entry_points`."""

    def __call__(self, group, name):
        return [point for point in self if (point.group, point.name) == (group, name)]


def test_an_installed_plug_in_is_found_by_name(configure, monkeypatch):
    point = EntryPoint("mine", "fake_generator:FakeGenerator", "fedeas.generators")
    monkeypatch.setattr(registry, "entry_points", Points([point]))
    settings = configure(generator="mine")
    generator = registry.open_generator(settings)
    assert type(generator).__name__ == "FakeGenerator"
    assert generator.digest == settings  # it was given the settings


def test_a_broken_plug_in_is_a_sentence(configure, monkeypatch):
    point = EntryPoint("mine", "no_such_module:thing", "fedeas.generators")
    monkeypatch.setattr(registry, "entry_points", Points([point]))
    with pytest.raises(UserError, match=r"plug-in 'mine' .* cannot be loaded"):
        registry.open_generator(configure(generator="mine"))


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("fake_generator:FakeGenerator.name", "'str' object is not callable"),
        ("time:time", r"time\.time\(\) takes no arguments"),
    ],
)
def test_a_plug_in_that_cannot_be_called_is_a_sentence(configure, monkeypatch, target, reason):
    monkeypatch.setattr(
        registry, "entry_points", Points([EntryPoint("mine", target, "fedeas.generators")])
    )
    with pytest.raises(UserError, match=rf"'mine' \({target}\) cannot make .*{reason}") as caught:
        registry.open_generator(configure(generator="mine"))
    assert isinstance(caught.value.__cause__, TypeError)


def test_the_home_of_nobody_is_a_sentence(settings_for):
    with pytest.raises(UserError, match="generator is '~no-such-user/x', but this machine knows"):
        open_generator(settings_for("~no-such-user/x"))


def test_a_revision_is_for_the_hub_alone(trained, settings_for):
    for name in ("pool", str(trained)):
        keys = {"generator_revision": "a" * 40, "pool_dataset": "digits"}
        with pytest.raises(UserError, match="generator-revision is set, but the generator"):
            open_generator(settings_for(name, **keys))


def test_a_directory_of_something_else_is_told(tmp_path, settings_for):
    with pytest.raises(UserError, match=r"without model_index\.json .* and without unet/"):
        open_generator(settings_for(tmp_path))


@pytest.mark.parametrize(
    ("key", "keys"),
    [("generator-classes", {"generator_classes": "a,b,c"}), ("sampler", {"sampler": "own"})],
)
def test_keys_of_pretrained_pipelines_are_refused_elsewhere(trained, settings_for, key, keys):
    with pytest.raises(UserError, match=f"^{key} .*is for pretrained pipelines"):
        open_generator(settings_for(trained, **keys))


@pytest.mark.parametrize(
    ("name", "is_path"),
    [("mini", False), ("pool", False), ("own", False), ("mine", False), ("owner/name", False),
     ("minimal", True), ("/srv/generator", True), ("~/g", True), ("./owner/name", True)],
)  # fmt: skip
def test_paths_are_told_from_names(shipped, monkeypatch, name, is_path):
    point = EntryPoint("mine", "fake_generator:FakeGenerator", "fedeas.generators")
    monkeypatch.setattr(registry, "entry_points", Points([point]))
    assert registry.names_path(name) is is_path


def test_a_node_without_a_generator_of_its_own_is_told_so(settings_for):
    with pytest.raises(UserError, match="has none; name its directory with generator-path"):
        open_generator(settings_for("own"))


def test_at_full_precision_a_digest_is_of_no_device(trained, settings_for, monkeypatch):
    settings = settings_for(trained, sampler="ddim", sampler_steps=3)
    on_this_cpu = _ddim(trained).digest
    monkeypatch.setattr("fedeas_app.generators.ddpm.resolve_precision", refuse_auto)
    assert open_generator(registry.at_float32(settings)).digest == on_this_cpu


def refuse_auto(name, device):
    assert name != "auto"
    return name
