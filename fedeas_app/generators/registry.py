"""From the key ``generator`` to a generator."""

from importlib.metadata import entry_points
from pathlib import Path

from fedeas_app.errors import UserError
from fedeas_app.generators import pretrained
from fedeas_app.generators.protocol import Generator
from fedeas_app.settings import Settings

# A package offers a generator with an entry point of this group: a callable that takes the
# settings and returns a Generator.
PLUGINS = "fedeas.generators"


def open_generator(settings: Settings) -> Generator:
    """Open the generator that the settings name, without loading its weights yet.

    A shipped generator, ``pool``, an installed plug-in, or else a directory.

    Raises
    ------
    UserError
        There is no such generator, or it is not what it should be.
    """
    name = settings.generator
    if name in pretrained.names():
        return _ddpm(pretrained.unpack(name, settings.cache_path / "generators"), settings)
    if name == "pool":
        from fedeas_app.generators.pool import Pool

        return Pool(settings)
    plugin = _plugin(name, settings)
    return plugin if plugin is not None else _ddpm(Path(name).expanduser(), settings)


def _ddpm(directory: Path, settings: Settings) -> Generator:
    from fedeas_app.generators.ddpm import Ddpm

    return Ddpm(
        directory,
        name=repr(settings.generator),
        sampler=settings.sampler,
        steps=settings.sampler_steps,
        batch_size=settings.generation_batch_size,
        device=settings.device,
    )


def _plugin(name: str, settings: Settings) -> Generator | None:
    for point in entry_points(group=PLUGINS, name=name):
        try:
            generator: Generator = point.load()(settings)
        except (ImportError, AttributeError) as error:
            raise UserError(
                f"The generator plug-in {name!r} ({point.value}) cannot be loaded ({error}); "
                "install its package again."
            ) from error
        return generator
    return None
