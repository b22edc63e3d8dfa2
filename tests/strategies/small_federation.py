"""Ten clients that train a small network on the digits in NumPy: a whole run in a second."""

from functools import cache
from types import SimpleNamespace

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from sklearn.datasets import load_digits

from fedeas_app import oui
from fedeas_app.client import Order
from fedeas_app.preparation import ClientPlan, Plan
from fedeas_app.strategies import make_strategy

CLIENTS, EACH, HIDDEN, BATCH, STEP = 10, 100, 32, 20, 0.2


@cache
def digits():
    """Return the clients' images and labels, EACH for each, and those for testing."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = images[order] / 8 - 1, labels[order]
    mine = [slice(k * EACH, (k + 1) * EACH) for k in range(CLIENTS)]
    rest = slice(CLIENTS * EACH, None)
    return [(images[part], labels[part]) for part in mine], (images[rest], labels[rest])


def first_weights():
    rng = np.random.default_rng(1)
    return {
        "hidden.weight": rng.normal(0, 1 / 8, (64, HIDDEN)),
        "hidden.bias": np.zeros(HIDDEN),
        "output.weight": rng.normal(0, 1 / 6, (HIDDEN, 10)),
        "output.bias": np.zeros(10),
    }


def forward(w, images):
    z = images @ w["hidden.weight"] + w["hidden.bias"]
    return z, np.maximum(z, 0) @ w["output.weight"] + w["output.bias"]


def gradients(w, images, labels):
    z, logits = forward(w, images)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1
    p /= len(labels)
    back = (p @ w["output.weight"].T) * (z > 0)
    return {
        "hidden.weight": images.T @ back,
        "hidden.bias": back.sum(axis=0),
        "output.weight": np.maximum(z, 0).T @ p,
        "output.bias": p.sum(axis=0),
    }


def trained(w, images, labels, rng):
    w = {name: array.astype(np.float64) for name, array in w.items()}
    for chosen in np.split(rng.permutation(len(labels)), len(labels) // BATCH):
        for name, gradient in gradients(w, images[chosen], labels[chosen]).items():
            w[name] = w[name] - STEP * gradient
    return w


def as_record(w):
    return ArrayRecord({name: Array(array.astype(np.float32)) for name, array in w.items()})


def as_weights(record):
    return {name: array.numpy() for name, array in record.items()}


class Federation:
    """A run of a strategy over the ten clients, some of them hostile."""

    def __init__(self, settings, hostile=None):
        self.hostile = hostile
        factors = dict.fromkeys(range(CLIENTS), 1)
        if hostile is not None and hostile.early:
            factors |= dict.fromkeys(hostile.partitions, hostile.factor)
        people = tuple(
            ClientPlan(k, EACH * factor, 0, 0, 0.0, 0.0, 0.0) for k, factor in factors.items()
        )
        nodes = {k: 100 + k for k in factors}
        plan = Plan(0.0, people, nodes, dict.fromkeys(factors, Order()))
        self.strategy = make_strategy(settings, plan)
        self.arrays = as_record(first_weights())

    def run(self, rounds=12):
        """Return the test accuracy at the end, and the report of the last round."""
        with np.errstate(over="ignore", invalid="ignore"):
            for number in range(1, rounds + 1):
                replies = [self._reply(number, msg) for msg in self._requests(number)]
                arrays, _ = self.strategy.aggregate_train(number, replies)
                self.arrays = self.arrays if arrays is None else arrays
            images, labels = digits()[1]
            guesses = forward(as_weights(self.arrays), images)[1].argmax(axis=1)
        accuracy = float((guesses == labels).mean())
        return SimpleNamespace(accuracy=accuracy, report=self.strategy.reports[rounds])

    def _requests(self, number):
        sent = list(self.strategy.configure_train(number, self.arrays, ConfigRecord(), None))
        for place, msg in enumerate(sent):
            msg.metadata.__dict__["_message_id"] = f"id-{number}-{place}"
        return sent

    def _reply(self, number, request):
        k = request.metadata.dst_node_id - 100
        images, labels = digits()[0][k]
        rng = np.random.default_rng([number, k])
        w = trained(as_weights(self.arrays), images, labels, rng)
        values = {
            "partition-id": k,
            "num-examples": EACH,
            "oui": oui.oui(forward(w, images[:32])[0]),
            "loss": 1.0,
        }
        content = RecordDict({"arrays": as_record(w), "metrics": MetricRecord(values)})
        reply = Message(content, reply_to=request)
        return reply if self.hostile is None else self.hostile(k, request, reply)
