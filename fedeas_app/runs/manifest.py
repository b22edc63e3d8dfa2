"""What a run was made of, so that its numbers can be trusted and repeated."""

import os
import platform
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord
from safetensors.torch import save

from fedeas_app import __version__
from fedeas_app.files import sha256
from fedeas_app.settings import Settings

PACKAGES = (
    "flwr", "flwr-datasets", "datasets", "ray", "torch", "torchvision", "diffusers", "accelerate",
    "numpy", "scipy", "scikit-learn",
)  # fmt: skip
# What draws, trains, weighs and evaluates; neither commands nor what is shown.
NUMBERS = (
    "budget.py", "capping.py", "client.py", "clipping.py", "evaluation.py", "models.py", "oui.py",
    "preparation.py", "seeds.py", "data/*.py", "local/*.py", "strategies/*.py",
)  # fmt: skip


def versions() -> dict[str, str]:
    """Return the versions of this app, Python and the packages that decide numbers.

    ``fedeas-numbers`` is a digest of those of our own modules that do: a version number stays the
    same from one change to the next.
    """
    found = {"fedeas": __version__, "fedeas-numbers": sources_digest()}
    found["python"] = platform.python_version()
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


@cache
def sources_digest() -> str:
    """Return a digest of the modules whose code decides the numbers of a run."""
    root = Path(__file__).parents[1]
    paths = [path for pattern in NUMBERS for path in sorted(root.glob(pattern))]
    return sha256(b"".join(path.read_bytes() for path in paths))[:16]


def describe(
    settings: Settings, classes: Sequence[str], digests: Mapping[str, str], initial: ArrayRecord
) -> dict[str, Any]:
    """Return versions, machine and digests of everything that goes into a run.

    Parameters
    ----------
    settings : Settings
    classes : sequence of str
    digests : mapping of str to str
        Of training set, test set, partition and generator; empty where the server has none.
    initial : ArrayRecord
        The first model.
    """
    return {
        "versions": versions(),
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
        },
        "digests": {**digests, "initial-model": sha256(save(initial.to_torch_state_dict()))},
        "classes": list(classes),
        "evaluated-on": "server" if digests["test"] else "clients",
    }
