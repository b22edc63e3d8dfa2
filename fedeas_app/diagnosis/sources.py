"""The datasets that a configuration names: whether they are here, without fetching any."""

import os
from pathlib import Path

from fedeas_app.diagnosis.findings import Finding, ok, problem, warning
from fedeas_app.settings import OWN, Settings

_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
_TRUE = ("1", "ON", "YES", "TRUE")


def look_at_dataset(key: str, settings: Settings) -> Finding:
    """Return where the images of a dataset come from.

    Parameters
    ----------
    key : str
        The configuration's, for which the dataset is named.
    settings : Settings
        Name it as ``dataset``.

    Raises
    ------
    UserError
        The path does not exist, or the id is not one the hub could have.
    """
    from fedeas_app.data.sources import DIGITS, is_local
    from fedeas_app.data.split import is_decoded

    name = settings.dataset
    if name == OWN:
        advice = "A site sees whether its images are right with fedeas plan --data-path."
        return ok(key, "each SuperNode has its own, named with data-path", advice)
    if name == DIGITS:
        return ok(key, f"{name}, which scikit-learn brings")
    if is_decoded(settings):
        return ok(key, f"{name}, decoded in the cache")
    if is_local(name):
        return ok(key, f"{name}, to be decoded at its first use")
    return _of_hub(key, name)


def _of_hub(key: str, name: str) -> Finding:
    if in_library_cache(name, _library_cache()):
        return ok(key, f"{name}, in the cache of the hub's library")
    return to_be_fetched(key, name)


def to_be_fetched(key: str, name: str) -> Finding:
    """Return what it means that something of the hub is not on this machine."""
    found, forbidding = f"{name}, not on this machine", _forbids_download()
    if not forbidding:
        return warning(key, found, "Its first use downloads it, and needs the network for that.")
    advice = f"{forbidding} forbids to download it; unset that, or copy another machine's cache."
    return problem(key, found, advice)


def in_library_cache(name: str, root: Path) -> bool:
    """Tell whether the dataset library has prepared some revision of a dataset there.

    It writes a name ``owner/aName`` as ``owner___a_name``.
    """
    wanted = _plain(name.replace("/", "___"))
    return root.is_dir() and any(_plain(path.name) == wanted for path in root.iterdir())


def _forbids_download() -> str:
    """Return the variable that keeps the hub's libraries from the network; empty: none."""
    said = (name for name in _OFFLINE if os.environ.get(name, "").upper() in _TRUE)
    return next(said, "")


def _library_cache() -> Path:
    from huggingface_hub.constants import HF_HOME

    return Path(os.environ.get("HF_DATASETS_CACHE") or Path(HF_HOME) / "datasets").expanduser()


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
