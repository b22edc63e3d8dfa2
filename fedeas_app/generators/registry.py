"""From the key ``generator`` to a generator."""

from pathlib import Path

from fedeas_app.generators import pretrained
from fedeas_app.generators.protocol import Generator
from fedeas_app.settings import Settings


def open_generator(settings: Settings) -> Generator:
    """Open the generator that the settings name, without loading its weights yet.

    Raises
    ------
    UserError
        There is no such generator, or it is not what it should be.
    """
    from fedeas_app.generators.ddpm import Ddpm

    return Ddpm(
        _directory(settings),
        name=repr(settings.generator),
        sampler=settings.sampler,
        steps=settings.sampler_steps,
        batch_size=settings.generation_batch_size,
        device=settings.device,
    )


def _directory(settings: Settings) -> Path:
    if settings.generator in pretrained.names():
        return pretrained.unpack(settings.generator, settings.cache_path / "generators")
    return Path(settings.generator).expanduser()
