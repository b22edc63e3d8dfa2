"""What a run was made of, so that its numbers can be trusted and repeated."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from flwr.app import ArrayRecord
from safetensors.torch import save

from fedeas_app import __version__
from fedeas_app.data import Split
from fedeas_app.files import sha256
from fedeas_app.generators import open_generator
from fedeas_app.settings import Settings

PACKAGES = (
    "flwr", "flwr-datasets", "datasets", "ray", "torch", "torchvision", "diffusers", "accelerate",
    "numpy", "scipy", "scikit-learn",
)  # fmt: skip


def versions() -> dict[str, str]:
    """Return the versions of this app, Python and the packages that decide numbers."""
    found = {"fedeas": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def describe(
    settings: Settings, train: Split, test: Split, partition_digest: str, initial: ArrayRecord
) -> dict[str, Any]:
    """Return versions, machine and digests of everything that goes into a run."""
    uses_generator = settings.policy != "none"
    return {
        "versions": versions(),
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
        },
        "digests": {
            "train": train.digest,
            "test": test.digest,
            "partition": partition_digest,
            "initial-model": sha256(save(initial.to_torch_state_dict())),
            "generator": open_generator(settings).digest if uses_generator else "",
        },
        "classes": list(train.class_names),
    }
