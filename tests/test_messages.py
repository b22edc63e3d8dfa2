"""What each handler of the client answers, key by key."""

import numpy as np
import pytest
import torch
from fake_grid import over_the_wire
from flwr.app import ArrayRecord, Context, Message, RecordDict

from client_app import app
from fedeas_app import budget, messages
from fedeas_app.client import Client, Order
from fedeas_app.data import load_split
from fedeas_app.local import train_sgd


def send(settings, content, message_type, k=1):
    msg = over_the_wire(Message(content, 55, message_type))
    node = {"partition-id": k, "num-partitions": 4}
    return over_the_wire(app(msg, Context(1, 55, node, RecordDict(), settings.to_flat())))


def train(settings, order=None, server_round=3, k=1, arrays=None):
    arrays = arrays or ArrayRecord(Client(settings, k, 4).model().state_dict())
    request = messages.train_request(arrays, server_round, order or Order())
    return send(settings, request, "train", k)


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in second)


@pytest.mark.parametrize("policy", ["fedeas", *budget.TOTAL_POLICIES])
def test_outlook_answers_sums_for_each_beta(configure, policy):
    settings = configure(policy=policy)
    reply = send(settings, messages.outlook_request([0.0, 4.0, 12.0]), "query.outlook")
    counts = Client(settings, 1, 4).counts
    made = [budget.allocate(counts, "fedeas", beta=beta) for beta in (0.0, 4.0, 12.0)]
    expected = {
        "partition-id": 1,
        "num-examples": int(counts.sum()),
        "synthetic": [int(g.sum()) for g in made],
        # Σ_k M_k (1 − H̃_k), of one client.
        "skew": pytest.approx([(counts + g).sum() * budget.imbalance(counts + g) for g in made]),
    }
    weights = {
        "uniform": 1,
        "size-proportional": int(counts.sum()),
        "missing-only": int((counts == 0).sum()),
    }
    if policy in weights:
        expected["share-weight"] = weights[policy]
    assert set(reply.content) == {"metrics"}
    assert dict(reply.content["metrics"]) == expected


@pytest.mark.parametrize("policy", ["fedeas", *budget.TOTAL_POLICIES])
def test_the_roll_call_is_answered_with_the_number_of_real_images_alone(configure, policy):
    settings = configure(policy=policy)
    reply = send(settings, messages.roll_call_request(), "query.presence")
    real = int(Client(settings, 1, 4).counts.sum())
    assert set(reply.content) == {"metrics"}
    assert dict(reply.content["metrics"]) == {"partition-id": 1, "num-examples": real}


def test_preparation_answers_totals(configure, fake_generator, tmp_path):
    settings = configure(policy="fedeas", cache_dir=str(tmp_path))
    counts = Client(settings, 1, 4).counts
    made = budget.allocate(counts, "fedeas", beta=12.0)
    for now in (int(made.sum()), 0):  # the second time all comes from the cache
        reply = send(settings, messages.order_request(Order(12.0)), "query.prepare")
        metrics = dict(reply.content["metrics"])
        assert metrics.pop("seconds") > 0
        assert metrics == {
            "partition-id": 1,
            "num-examples": int(counts.sum()),
            "synthetic": int(made.sum()),
            "made": now,
            "imbalance-before": pytest.approx(budget.imbalance(counts)),
            "imbalance-after": pytest.approx(budget.imbalance(counts + made)),
        }
        assert set(reply.content) == {"metrics", "config"}
        assert dict(reply.content["config"]) == {"generator-digest": fake_generator.digest}
        assert messages.read_generator(reply) == fake_generator.digest


def test_who_needs_no_image_names_no_generator(configure):
    reply = send(configure(policy="none"), messages.order_request(Order()), "query.prepare")
    assert dict(reply.content["config"]) == {"generator-digest": ""}


def test_evaluation_answers_the_number_of_images_accuracy_and_loss(configure):
    """Here of the shared test set; what a site holds out is tested with its own data."""
    settings = configure()
    model = Client(settings, 1, 4).model()
    reply = send(settings, messages.evaluate_request(ArrayRecord(model.state_dict())), "evaluate")
    assert set(reply.content) == {"metrics"}
    test = load_split(settings, "test")
    pixels = torch.from_numpy(test.images.transpose(0, 3, 1, 2).astype(np.float32)) / 63.75 - 2
    with torch.no_grad():
        chances = model.eval()(pixels).softmax(1).double().numpy()
    right = chances[np.arange(60), test.labels]
    assert dict(reply.content["metrics"]) == {
        "partition-id": 1,
        "num-examples": 60,
        "accuracy": float((chances.argmax(1) == test.labels).mean()),
        "loss": pytest.approx(float(-np.log(right).mean())),
    }


def test_an_order_and_a_round_arrive_as_they_were_sent():
    order = Order(beta=6.5, share=41, generator="ab")
    request = messages.train_request(ArrayRecord(), 17, order)
    msg = over_the_wire(Message(request, 5, "train"))
    assert messages.read_order(msg) == order
    assert messages.read_round(msg) == 17
    msg = over_the_wire(Message(messages.order_request(order), 5, "query.prepare"))
    assert messages.read_order(msg) == order


def test_training_answers_weights_and_four_numbers(configure, fake_generator):
    settings = configure(policy="fedeas")
    reply = train(settings, Order(12.0))
    assert set(reply.content) == {"arrays", "metrics"}
    assert set(reply.content["metrics"]) == {"partition-id", "num-examples", "oui", "loss"}
    # The arrays are the model's own, and nothing beside it.
    model = Client(settings, 1, 4).model().state_dict()
    arrays = reply.content["arrays"]
    assert list(arrays) == list(model)
    assert [array.numpy().shape for array in arrays.values()] == [
        tuple(tensor.shape) for tensor in model.values()
    ]


@pytest.mark.parametrize("keys", [{}, {"augment": True, "local_epochs": 2, "weight_decay": 0.01}])
def test_training_is_local_sgd_from_the_model_sent(configure, keys):
    settings = configure(**keys)
    client = Client(settings, 1, 4)
    start = ArrayRecord(Client(configure(seed=9), 1, 4).model().state_dict())
    reply = train(settings, arrays=start, server_round=6)

    model = client.model()
    model.load_state_dict(start.to_torch_state_dict())
    loss = train_sgd(model, client.examples(Order()), settings, client.rng(6))
    assert same(reply.content["arrays"].to_torch_state_dict(), model.state_dict())
    metrics = reply.content["metrics"]
    assert metrics["loss"] == loss
    assert metrics["oui"] == client.oui(model, torch.device("cpu"))
    assert 0 < metrics["oui"] < 1
    assert not same(reply.content["arrays"].to_torch_state_dict(), start.to_torch_state_dict())


def test_training_repeats_to_the_bit_and_touches_no_global_state(configure):
    settings = configure(augment=True, seed=2)
    torch.manual_seed(1)
    first = train(settings)
    torch.manual_seed(2)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(2)
    second = train(settings)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), state)
    assert [a.data for a in first.content["arrays"].values()] == [
        a.data for a in second.content["arrays"].values()
    ]
    assert dict(first.content["metrics"]) == dict(second.content["metrics"])
    other = train(settings, server_round=4)
    assert other.content["metrics"]["loss"] != first.content["metrics"]["loss"]


@pytest.mark.parametrize("weight_by", ["real", "total"])
def test_weight_counts_real_images_or_all(configure, fake_generator, weight_by):
    settings = configure(policy="full", weight_by=weight_by)
    counts = Client(settings, 1, 4).counts[0]
    expected = {"real": counts.sum(), "total": 10 * counts.max()}[weight_by]
    assert train(settings).content["metrics"]["num-examples"] == expected


def test_weight_is_a_number_of_examples_not_of_batches(configure):
    settings = configure(batch_size=64)
    sizes = [train(settings, k=k).content["metrics"]["num-examples"] for k in range(4)]
    assert sizes == [len(Client(settings, k, 4).indices) for k in range(4)]
    assert sum(sizes) == 300
    assert len(set(sizes)) > 1


def test_synthetic_images_take_part_in_training(configure, fake_generator):
    plain = train(configure(policy="none"))
    more = train(configure(policy="full"))
    first, second = (r.content["arrays"].to_torch_state_dict() for r in (plain, more))
    assert not same(first, second)


def test_batch_statistics_come_back_with_the_model(configure):
    settings = configure(model="resnet18", norm="batch", image_size=16, train_samples=60,
                         local_epochs=1, batch_size=16)  # fmt: skip
    client = Client(settings, 0, 4)
    reply = train(settings, k=0)
    batches = -(-len(client.indices) // 16)
    steps = reply.content["arrays"]["net.bn1.num_batches_tracked"].numpy()
    assert steps.dtype == np.int64
    assert steps == batches
