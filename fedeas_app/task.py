"""What the server needs of the learning task: a test set, a first model, and what they are."""

from dataclasses import dataclass
from typing import Any

from flwr.app import ArrayRecord

from fedeas_app.data import (
    Split,
    classes_and_shape,
    load_split,
    load_test_dataset,
    partition,
    partition_digest,
    scenarios,
)
from fedeas_app.devices import resolve_device
from fedeas_app.errors import UserError
from fedeas_app.generators import at_float32, open_generator, require_fit
from fedeas_app.generators.federated.options import require_trainable
from fedeas_app.models import Classifier, make_model
from fedeas_app.runs.manifest import describe
from fedeas_app.settings import FEDERATED, OWN, Settings

_NOT_THE_SERVERS = (OWN, FEDERATED)  # generators that it does not have when a run begins


@dataclass(frozen=True)
class Task:
    """A learning task as the server sees it.

    Attributes
    ----------
    test : Split or None
        None: clients evaluate, on images that they hold out.
    generator : str
        The digest that all clients' generators must have; empty: any, if it is the same.
    """

    test: Split | None
    model: Classifier
    initial_arrays: ArrayRecord
    manifest: dict[str, Any]
    generator: str


def load_task(settings: Settings, num_clients: int) -> Task:
    """Load the test set, make the first model, and check what the clients will need.

    Whatever is wrong with the dataset, the partition or the generator shows here, once, instead of
    at every client; and the decoded data lies ready for all workers of this machine.

    Raises
    ------
    UserError
    """
    train, test, parts = _data(settings, num_clients)
    resolve_device(settings.device)
    require_generator(settings)
    classes, shape = classes_and_shape(settings)
    model = make_model(settings, shape, len(classes))
    initial = ArrayRecord(model.state_dict())
    digests = {
        "train": train.digest if train else "",
        "test": test.digest if test else "",
        "partition": parts,
        "generator": required_digest(settings),
    }
    manifest = describe(settings, classes, digests, initial)
    manifest["scenario"] = scenarios.describe(num_clients, settings)
    return Task(test, model, initial, manifest, digests["generator"])


def require_generator(settings: Settings) -> None:
    """Refuse a generator that is missing or is not the one wanted, if the server needs one.

    Raises
    ------
    UserError
    """
    if settings.trains_generator:
        require_trainable(settings, classes_and_shape(settings)[1])
    if settings.policy == "none" or settings.generator in _NOT_THE_SERVERS:
        return
    require_fit(open_generator(settings), *classes_and_shape(settings))
    wanted, found = settings.generator_digest, _digest(settings)
    if wanted not in ("", found):
        raise UserError(
            f"generator-digest is {wanted}, but the generator {settings.generator!r} here is "
            f"{found}; correct one of them."
        )


def required_digest(settings: Settings) -> str:
    """Return the digest that all clients' generators must have; empty: the server has none."""
    if settings.policy == "none":
        return ""
    if settings.generator_digest or settings.generator in _NOT_THE_SERVERS:
        return settings.generator_digest
    return _digest(settings)


def _data(settings: Settings, num_clients: int) -> tuple[Split | None, Split | None, str]:
    """Return what the server has of the training and the test set, and the partition's digest."""
    if settings.dataset == OWN:
        return None, load_test_dataset(settings), ""
    train, test = (load_split(settings, name, verify=True) for name in ("train", "test"))
    return train, test, partition_digest(partition(train.labels, num_clients, settings))


def _digest(settings: Settings) -> str:
    return open_generator(at_float32(settings)).digest
