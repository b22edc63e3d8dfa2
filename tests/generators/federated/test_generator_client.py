"""A client's round of the generator, through the client app."""

import pytest
import torch
from fake_grid import FakeGrid, over_the_wire
from flwr.app import ArrayRecord, Context, Message, RecordDict
from own_data import NAMES, OWN_KEYS, write_site

from client_app import app
from fedeas_app import messages, preparation
from fedeas_app.client import Client, Order
from fedeas_app.data import classes_and_shape
from fedeas_app.errors import PublicError, UserError
from fedeas_app.generators.federated.client import train_generator
from fedeas_app.generators.federated.network import make_network
from fedeas_app.generators.federated.transfer import joined


def first_network(settings):
    """Return the first network as it is sent."""
    names, shape = classes_and_shape(settings)
    return joined(ArrayRecord(make_network(settings, shape, len(names)).state_dict()))


def test_want_of_memory_names_the_key_to_lower(job, monkeypatch):
    """A batch that does not fit is halved first; here not even its optimizer finds any room."""
    settings = job(generator_batch_size=24)

    def short(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr("fedeas_app.generators.federated.local._optimizer", short)
    content = messages.train_request(first_network(settings), 1, Order())
    request = over_the_wire(Message(content, 55, messages.TRAIN_GENERATOR))
    node = {"partition-id": 0, "num-partitions": 3}
    sentence = (
        "^There is not enough memory; generator-batch-size is 24, and half of it is too many "
        "images; set a smaller one.$"
    )
    with pytest.raises(PublicError, match=sentence):
        app(request, Context(1, 55, node, RecordDict(), settings.to_flat()))


def test_a_client_without_an_image_leaves_the_network_alone(job):
    """As in the rounds of the classifier, its reply does not count: its n_k is 0."""
    settings = job()
    client, sent = Client(settings, 0, 3), first_network(settings)
    client.__dict__ |= {"indices": client.indices[:0], "labels": client.labels[:0]}
    returned, loss = train_generator(client, 1, sent)
    assert loss == 0
    for name, array in sent.items():
        assert (returned[name].numpy() == array.numpy()).all()


@pytest.mark.parametrize("folders", [[], NAMES[:2]])
def test_a_site_without_an_image_ends_the_run_at_the_roll_call(job, tmp_path, caplog, folders):
    """Its own log says why; so do the preparation's answers where there is no roll call."""
    write_site(tmp_path / "one", [0, 1])
    empty = tmp_path / "other"
    empty.mkdir()
    for name in folders:
        (empty / name).mkdir()
    settings = job(**OWN_KEYS | {"cache_dir": str(tmp_path / "cache")})
    sites = {
        k: {"partition-id": k, "data-path": str(path)}
        for k, path in enumerate((tmp_path / "one", empty))
    }
    grid = FakeGrid(settings, 2, node_configs=sites)
    with pytest.raises(UserError, match=r"Partition 1 failed; the log of its SuperNode says why"):
        preparation.roll_call(grid, list(grid.get_node_ids()), settings)
    assert any(f"{empty} has no images in subfolders" in line for line in caplog.messages)
