"""What the server needs of the learning task: a test set, a first model, and what they are."""

from dataclasses import dataclass
from typing import Any

from flwr.app import ArrayRecord

from fedeas_app.data import Split, load_split, partition, partition_digest, scenarios
from fedeas_app.devices import resolve_device
from fedeas_app.generators import open_generator, require_fit
from fedeas_app.models import Classifier, make_model
from fedeas_app.runs.manifest import describe
from fedeas_app.settings import Settings


@dataclass(frozen=True)
class Task:
    """A learning task as the server sees it."""

    test: Split
    model: Classifier
    initial_arrays: ArrayRecord
    manifest: dict[str, Any]


def load_task(settings: Settings, num_clients: int) -> Task:
    """Load the test set, make the first model, and check what the clients will need.

    Whatever is wrong with the dataset, the partition or the generator shows here, once, instead of
    at every client; and the decoded data lies ready for all workers of this machine.

    Raises
    ------
    UserError
    """
    train, test = (load_split(settings, name, verify=True) for name in ("train", "test"))
    parts = partition(train.labels, num_clients, settings)
    resolve_device(settings.device)
    require_generator(settings)
    model = make_model(settings, train.image_shape, len(train.class_names))
    initial = ArrayRecord(model.state_dict())
    manifest = describe(settings, train, test, partition_digest(parts), initial)
    manifest["scenario"] = scenarios.describe(num_clients, settings)
    return Task(test, model, initial, manifest)


def require_generator(settings: Settings) -> None:
    """Refuse a generator that is missing or was not made for the dataset, if one is needed.

    Raises
    ------
    UserError
    """
    if settings.policy == "none":
        return
    train = load_split(settings, "train")
    require_fit(open_generator(settings), train.class_names, train.image_shape)
