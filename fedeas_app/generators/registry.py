"""From the key ``generator`` to a generator."""

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from fedeas_app.errors import PublicError, UserError, first_line
from fedeas_app.generators import hub
from fedeas_app.generators.protocol import Generator
from fedeas_app.settings import FEDERATED, OWN, Settings

# A package offers a generator with an entry point of this group: a callable that takes the
# settings and returns a Generator.
PLUGINS = "fedeas.generators"
POOL = "pool"
LOST = "The generator that the clients have trained is not in the cache any more."
"""What a client says that would need to be sent it again."""


def open_generator(settings: Settings) -> Generator:
    """Open the generator that the settings name, without loading its weights yet.

    A shipped generator, ``pool``, an installed plug-in, a hub id, or else a directory: one of
    ours, or a diffusers pipeline.

    Raises
    ------
    UserError
        There is no such generator, or it is not what it should be.
    """
    generator = _named(settings)
    if generator is None and hub.is_hub_id(settings.generator):
        return _directory(hub.fetch(settings), settings)
    if settings.generator_revision:
        raise UserError(
            f"generator-revision is set, but the generator {settings.generator!r} does not come "
            "from the hub; leave it empty, or name a hub id (owner/name)."
        )
    if generator is None:
        return _directory(_expand(settings.generator), settings)
    return generator


def at_float32(settings: Settings) -> Settings:
    """Return the settings under which a generator has the same digest on a CPU and on a GPU."""
    return Settings.parse(settings.to_flat() | {"generation-precision": "float32"})


def names_path(name: str) -> bool:
    """Tell whether a generator of that name is looked for in a directory of this machine."""
    from fedeas_app.generators import pretrained  # as below

    if name in (*pretrained.names(), POOL, OWN, FEDERATED) or hub.is_hub_id(name):
        return False
    return not any(entry_points(group=PLUGINS, name=name))


def _named(settings: Settings) -> Generator | None:
    """Return the generator of a name of its own."""
    from fedeas_app.generators import pretrained  # it loads torch, and the command line must not

    name = settings.generator
    if name in pretrained.names():
        return _ddpm(pretrained.unpack(name, settings.cache_path / "generators"), settings)
    if name == OWN:
        raise UserError(
            f"generator is {OWN!r}, but this SuperNode has none; name its directory with "
            "generator-path in --node-config."
        )
    if name == FEDERATED:
        return _ddpm(_kept(federated_directory(settings)), settings)
    if name == POOL:
        from fedeas_app.generators.pool import Pool

        return Pool(settings)
    return _plugin(name, settings)


def federated_directory(settings: Settings) -> Path:
    """Return where this machine keeps a generator that the clients trained.

    Raises
    ------
    UserError
        No run has said which one.
    """
    if not settings.generator_digest:
        raise UserError(
            f"generator is {FEDERATED!r}, which a run trains; for one that is trained, name its "
            "directory: `generator` in the directory of that run."
        )
    short = settings.generator_digest[:16]
    return settings.cache_path / "generators" / f"{FEDERATED}-{short}"


def _kept(directory: Path) -> Path:
    if not directory.is_dir():
        raise PublicError(LOST)
    return directory


def _expand(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise UserError(
            f"generator is {name!r}, but this machine knows no home directory of that user; write "
            "the whole path."
        ) from error


def _directory(directory: Path, settings: Settings) -> Generator:
    if (directory / "model_index.json").exists():
        from fedeas_app.generators.pipelines import Pipeline

        return Pipeline(directory, settings)
    if directory.is_dir() and not (directory / "unet").exists():
        raise UserError(
            f"The generator {settings.generator!r} is a directory without model_index.json (a "
            "diffusers pipeline) and without unet/ (made by `fedeas generator train`); name one "
            "of these."
        )
    return _ddpm(directory, settings)


def _ddpm(directory: Path, settings: Settings) -> Generator:
    from fedeas_app.generators.ddpm import Ddpm

    _refuse_keys_of_pipelines(settings)
    return Ddpm(directory, settings)


def _refuse_keys_of_pipelines(settings: Settings) -> None:
    """Tell a user who takes one of our generators for a pretrained pipeline."""
    if settings.generator_classes or settings.sampler == "own":
        key = "generator-classes" if settings.generator_classes else 'sampler = "own"'
        raise UserError(
            f"{key} is for pretrained pipelines, but the generator {settings.generator!r} is none; "
            "leave it out."
        )


def _plugin(name: str, settings: Settings) -> Generator | None:
    for point in entry_points(group=PLUGINS, name=name):
        return _open_plugin(point, settings)
    return None


def _open_plugin(point: EntryPoint, settings: Settings) -> Generator:
    plugin = f"The generator plug-in {point.name!r} ({point.value})"
    try:
        generator: Generator = point.load()(settings)
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"{plugin} cannot be loaded ({first_line(error)}); install its package again."
        ) from error
    except TypeError as error:  # it is not callable, takes something else, or has a mistake in it
        raise UserError(
            f"{plugin} cannot make a generator from the settings ({first_line(error)}); install "
            "another version of its package, or tell its authors."
        ) from error
    return generator
