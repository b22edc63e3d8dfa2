"""What the server prepares for itself, and what it refuses before any client is asked."""

import pytest
import torch

from fedeas_app.client import Client
from fedeas_app.data import load_split, partition, partition_digest
from fedeas_app.data.scenarios import noisy_clients, rare_clients
from fedeas_app.errors import UserError
from fedeas_app.task import load_task


def test_the_task_holds_the_test_set_and_the_first_model(configure):
    settings = configure(seed=3)
    task = load_task(settings, 4)
    assert task.test.digest == load_split(settings, "test").digest
    assert len(task.test.labels) == 60
    state = task.initial_arrays.to_torch_state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in task.model.state_dict().items())
    # A client that loads it has the same names, in the same order.
    assert list(state) == list(Client(settings, 0, 4).model().state_dict())


def test_the_first_arrays_do_not_follow_the_model(configure):
    task = load_task(configure(), 4)
    before = [array.data for array in task.initial_arrays.values()]
    with torch.no_grad():
        for parameter in task.model.parameters():
            parameter.zero_()
    assert [array.data for array in task.initial_arrays.values()] == before
    assert any(tensor.any() for tensor in task.initial_arrays.to_torch_state_dict().values())


def test_the_manifest_names_the_partition_of_these_clients(configure):
    settings = configure()
    train = load_split(settings, "train")
    for clients in (3, 4):
        digests = load_task(settings, clients).manifest["digests"]
        parts = partition(train.labels, clients, settings)
        assert digests["partition"] == partition_digest(parts)


def test_the_manifest_names_the_poor_clients(configure):
    assert load_task(configure(), 4).manifest["scenario"] == {}
    settings = configure(noisy_fraction=0.5, rare_fraction=0.25, rare_cap=9)
    assert load_task(settings, 4).manifest["scenario"] == {
        "noisy-clients": noisy_clients(4, settings),
        "noise-rate": 0.4,
        "rare-clients": rare_clients(4, settings),
        "rare-cap": 9,
    }


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [("num_classes", 5, "5 classes, but the dataset has 10"), ("image_shape", (8, 8, 3), "8x8")],
)
def test_an_unfit_generator_is_refused(configure, fake_generator, attribute, value, words):
    setattr(fake_generator, attribute, value)
    with pytest.raises(UserError, match=words):
        load_task(configure(policy="fedeas"), 4)
    load_task(configure(policy="none"), 4)  # not needed, not looked at


def test_too_small_images_are_refused(configure):
    with pytest.raises(UserError, match="at least 16x16 pixels"):
        load_task(configure(model="resnet18", norm="batch"), 4)
