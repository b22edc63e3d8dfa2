"""The configuration: what it asks for, and whether that is here."""

import tempfile
from collections.abc import Sequence
from importlib.metadata import entry_points

from fedeas_app.diagnosis.findings import Finding, examined, ok, problem, warning
from fedeas_app.diagnosis.sources import look_at_dataset, to_be_fetched
from fedeas_app.diagnosis.torch_view import TorchView
from fedeas_app.generators import hub
from fedeas_app.generators.registry import PLUGINS, POOL
from fedeas_app.settings import FEDERATED, OWN, Settings

_SMALL = ("digits", OWN)  # datasets whose classes and image size cost nothing to know
_UNSEEN = "; whether it fits the images is seen when a run reads them"


def look_at_mistakes(mistakes: Sequence[str]) -> list[Finding]:
    """Return what is wrong with a configuration that is none."""
    return [problem("configuration", "cannot be used", mistake) for mistake in mistakes]


def look_at_job(settings: Settings, torch: TorchView) -> list[Finding]:
    """Return what a configuration asks for; where torch is broken, only in words."""
    found = [ok("policy", _policy(settings))]
    if torch.broken:
        advice = "Not looked at, as torch cannot be imported; see versions."
        return [*found, warning("the rest", "dataset, strategy, generator", advice)]
    found += [_dataset(key, settings) for key in _datasets(settings)]
    found.append(examined("strategy", settings.strategy, lambda: _strategy(settings)))
    found.append(examined("generator", settings.generator, lambda: _generator(settings)))
    if settings.tracker != "none":
        found.append(examined("tracker", settings.tracker, lambda: _tracker(settings)))
    return found


def _policy(settings: Settings) -> str:
    if settings.policy == "none":
        return "none, so that nothing is generated"
    return f"{settings.policy}, β = {settings.beta}"


def _datasets(settings: Settings) -> list[str]:
    """Return the keys that name datasets which the run reads."""
    keys = ["dataset"]
    if settings.test_dataset:
        keys.append("test-dataset")
    if _is_taken(settings) and settings.generator == POOL and settings.pool_dataset:
        keys.append("pool-dataset")
    return keys


def _dataset(key: str, settings: Settings) -> Finding:
    name = str(settings.to_flat()[key])
    reading = settings if key == "dataset" else settings.reading(name)
    return examined(key, name, lambda: look_at_dataset(key, reading))


def _strategy(settings: Settings) -> Finding:
    from fedeas_app.strategies.registry import require_enough_clients

    require_enough_clients(settings, int(settings.num_clients))
    return ok("strategy", f"{settings.strategy}, {settings.num_clients} clients")


def _tracker(settings: Settings) -> Finding:
    from fedeas_app.runs.tracking import require_tracker

    require_tracker(settings.tracker)
    return ok("tracker", settings.tracker)


def _is_taken(settings: Settings) -> bool:
    return settings.policy != "none" or settings.trains_generator


def _generator(settings: Settings) -> Finding:
    subject, name = "generator", settings.generator
    if not _is_taken(settings):
        return ok(subject, "not needed")
    if hub.is_hub_id(name) and settings.generator_revision and not hub.is_fetched(settings):
        return to_be_fetched(subject, name)
    plugins = entry_points(group=PLUGINS, name=name)
    if plugins:  # what it does when it is loaded is its own affair
        return ok(subject, f"{name}, the plug-in {', '.join(one.value for one in plugins)}")
    fits = _try(settings)
    return ok(subject, f"{name}, {_origin(settings)}" + ("" if fits else _UNSEEN))


def _try(settings: Settings) -> bool:
    """Open the generator as a run does; return whether it was also held against the images.

    In a cache that is gone afterwards, and on the CPU: of a device that is not there, devices tell.
    Large datasets are not read for it.

    Raises
    ------
    UserError
        It is missing, damaged, or does not fit.
    """
    from fedeas_app.generators import open_generator
    from fedeas_app.task import require_generator

    with tempfile.TemporaryDirectory(prefix="fedeas-") as scratch:
        apart = Settings.parse(settings.to_flat() | {"cache-dir": scratch, "device": "cpu"})
        if settings.dataset in _SMALL and settings.generator != POOL:
            require_generator(apart)
            return True
        if settings.generator not in (OWN, FEDERATED):
            open_generator(apart)
        return False


def _origin(settings: Settings) -> str:
    from fedeas_app.generators import pretrained

    name = settings.generator
    known = {
        FEDERATED: "which the clients train first",
        OWN: "each SuperNode's, named with generator-path",
        POOL: f"real images of {settings.pool_dataset}",
    }
    if name in known:
        return known[name]
    if name in pretrained.names():
        return "shipped with the app"
    return "in the cache of the hub's library" if hub.is_hub_id(name) else "a directory"
