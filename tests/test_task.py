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


def test_all_clients_must_have_the_servers_generator(configure, fake_generator):
    assert load_task(configure(policy="fedeas"), 4).generator == fake_generator.digest
    assert load_task(configure(policy="none"), 4).generator == ""


def test_a_digest_asked_for_must_be_that_of_the_servers_generator(configure, fake_generator):
    fake_generator.digest = "a" * 64
    settings = configure(policy="fedeas", generator_digest="a" * 64)
    assert load_task(settings, 4).generator == "a" * 64
    with pytest.raises(UserError, match=f"generator-digest is {'b' * 64}, but the generator 'digi"):
        load_task(configure(policy="fedeas", generator_digest="b" * 64), 4)


OWN = {"dataset": "own", "classes": "a,b,c", "image_size": 12, "image_channels": 3,
       "train_samples": 0, "test_samples": 0, "generator": "own"}  # fmt: skip


def test_a_server_without_data_makes_the_model_of_the_description(configure):
    task = load_task(configure(**OWN), 4)
    assert task.test is None
    assert task.generator == ""
    arrays = task.initial_arrays.to_torch_state_dict()
    assert arrays["convolutions.0.weight"].shape == (32, 3, 3, 3)
    assert arrays["hidden.weight"].shape == (128, 64 * 3 * 3)
    assert arrays["output.bias"].shape == (3,)
    assert task.manifest["evaluated-on"] == "clients"


def test_a_server_without_a_generator_asks_for_the_digest_it_is_told(configure):
    wanted = configure(**OWN, policy="fedeas", generator_digest="c" * 64)
    assert load_task(wanted, 4).generator == "c" * 64
    assert load_task(configure(**OWN, policy="fedeas"), 4).generator == ""
