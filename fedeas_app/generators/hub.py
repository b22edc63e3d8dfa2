"""Generators from the Hugging Face hub, at one commit."""

import re
from pathlib import Path
from typing import Any

from fedeas_app.errors import UserError, first_line
from fedeas_app.settings import Settings

# No code and no pickle. Weights lie in folders; what lies beside them is the same once more, in one
# file for other programs, and a second dot is of a copy in another precision.
_WANTED = ["*.json", "*.txt", "*.model", "*/*.safetensors"]
_COPIES = ["*/*.*.safetensors"]

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)


def is_hub_id(name: str) -> bool:
    """Whether a generator is named by a hub id, ``owner/name``: what exists here is a path."""
    return _ID.fullmatch(name) is not None and not Path(name).exists()


def fetch(settings: Settings) -> Path:
    """Return the directory of a generator of the hub, downloading it the first time.

    It lies in the hub library's own cache. Once it is whole there, nothing is asked of the hub.

    Raises
    ------
    UserError
        No commit is named, the hub cannot be reached or refuses, or there are no weights in
        safetensors.
    """
    name, revision = settings.generator, settings.generator_revision
    if not revision:
        raise UserError(
            f"The generator {name!r} is no directory here and so a hub id, which needs "
            "generator-revision: the full hash of a commit, because tomorrow the same name may "
            f"mean other weights; set it, or write './{name}' for a directory."
        )
    root = _snapshot(name, revision)
    if not any(root.glob("*/*.safetensors")):
        raise UserError(
            f"The generator {name!r} has no weights in safetensors at {revision}; name a commit "
            "that has them, or load it with diffusers and save it with save_pretrained."
        )
    return root


def is_fetched(settings: Settings) -> bool:
    """Tell whether a generator of the hub is whole on this machine, without asking the hub."""
    name, revision = settings.generator, settings.generator_revision
    return _is_listed(name, revision) and _cached(name, revision) is not None


def _snapshot(name: str, revision: str) -> Path:
    # Looked for first: a download makes a request of its own now and then, even where all is there.
    whole = _cached(name, revision) if _is_listed(name, revision) else None
    if whole is not None:
        return whole
    try:
        return Path(_download(name, revision))
    except Exception as error:  # Of httpx, of the hub library, of the disk: each its own.
        found = _cached(name, revision)
        if found is None:
            raise UserError(_reason(name, revision, error)) from error
        return found


def _is_listed(name: str, revision: str) -> bool:
    """Whether the cache knows which files there are, and so whether it has them all."""
    from huggingface_hub import get_cached_repo_tree
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    try:
        get_cached_repo_tree(name, revision=revision)
    except CachedRepoTreeNotFoundError:
        return False
    return True


def _cached(name: str, revision: str) -> Path | None:
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(_download(name, revision, local_files_only=True))
    except LocalEntryNotFoundError:
        return None


def _download(name: str, revision: str, **options: Any) -> str:
    from huggingface_hub import snapshot_download

    return str(
        snapshot_download(
            name, revision=revision, allow_patterns=_WANTED, ignore_patterns=_COPIES, **options
        )
    )


def _reason(name: str, revision: str, error: Exception) -> str:
    """Say in one sentence why the hub gave nothing, and what to do."""
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    subject = f"The generator {name!r}"
    if constants.HF_HUB_OFFLINE:
        return (
            f"{subject} is not whole in the hub library's cache at {revision}, and HF_HUB_OFFLINE "
            "forbids to download it; unset that, or copy the cache of another machine."
        )
    if isinstance(error, GatedRepoError):  # one of RepositoryNotFoundError, so first
        return (
            f"{subject} is shown by the hub only to those who accepted its terms; accept them on "
            "its page and log in with `hf auth login`."
        )
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"{subject} is not on the hub, or it is private; check the id, log in with `hf auth "
            f"login`, or write './{name}' for a directory."
        )
    if isinstance(error, RevisionNotFoundError):
        return f"{subject} has no commit {revision} on the hub; check generator-revision."
    return (
        f"{subject} cannot be downloaded from the hub ({first_line(error)}); check the network "
        "and the space on the disk, and start again: what has arrived is kept."
    )
