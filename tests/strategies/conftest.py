"""A round without clients: a plan, the messages sent, and replies made by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

from fedeas_app.client import Order
from fedeas_app.preparation import ClientPlan, Plan
from fedeas_app.strategies import make_strategy

NAMES = ("layer.weight", "layer.bias", "steps")


def record(*values):
    """Return an ArrayRecord under the names of the model."""
    return ArrayRecord({name: Array(v) for name, v in zip(NAMES, values, strict=True)})


class Round:
    """One round of a strategy; replies are made by partition."""

    record = staticmethod(record)

    def __init__(self, settings, clients, server_round=1, nodes=None, sizes=None):
        nodes = nodes or [1000 - k for k in range(clients)]
        orders = {k: Order(beta=2.0 + k, share=10 * k) for k in range(clients)}
        sizes = sizes or [10 + k for k in range(clients)]
        people = tuple(ClientPlan(k, sizes[k], 5, 0, 0.0, 0.0, 0.0) for k in range(clients))
        plan = Plan(2.0, people, dict(enumerate(nodes)), orders)
        self.strategy = make_strategy(settings, plan)
        self.arrays = record(
            np.zeros((2, 3), np.float32), np.zeros(3, np.float32), np.array(4, np.int64)
        )
        sent = self.strategy.configure_train(server_round, self.arrays, ConfigRecord(), None)
        self.sent = list(sent)
        for number, msg in enumerate(self.sent):
            msg.metadata.__dict__["_message_id"] = f"id-{number}"
        of_node = {node: k for k, node in plan.nodes.items()}
        self.of_partition = {of_node[msg.metadata.dst_node_id]: msg for msg in self.sent}

    def model(self, partition):
        rng = np.random.default_rng(partition)
        return record(
            rng.normal(size=(2, 3)).astype(np.float32),
            rng.normal(size=3).astype(np.float32),
            np.array(10 * partition, np.int64),
        )

    def change(self, partition):
        """Return what a client answers to the strategy's own arrays."""
        rng = np.random.default_rng(100 + partition)
        sent = self.of_partition[partition].content.array_records.get("extras", ArrayRecord())
        return ArrayRecord(
            {
                name: Array(rng.normal(size=array.shape).astype(array.dtype))
                for name, array in sent.items()
            }
        )

    def reply(self, partition, arrays=None, extras=None, **metrics):
        declared = self.strategy.declared()[partition]
        values = {"num-examples": declared, "oui": 0.2 + partition / 50, "loss": 1.0}
        values |= {"state-lost": 0} if self.strategy.has_state else {}
        values |= {key.replace("_", "-"): value for key, value in metrics.items()}
        content = RecordDict(
            {
                "arrays": self.model(partition) if arrays is None else arrays,
                "metrics": MetricRecord({k: v for k, v in values.items() if v is not None}),
            }
        )
        extras = self.change(partition) if extras is None else extras
        if extras:
            content["extras"] = extras
        return Message(content, reply_to=self.of_partition[partition])

    def error(self, partition, text):
        return Message(Error(2, text), reply_to=self.of_partition[partition])

    def aggregate(self, replies, server_round=1):
        arrays, metrics = self.strategy.aggregate_train(server_round, iter(replies))
        report = self.strategy.reports[server_round]
        return SimpleNamespace(arrays=arrays, metrics=metrics, report=report)


@pytest.fixture
def begin(configure):
    """Start a round of a strategy."""

    def make(clients=3, server_round=1, nodes=None, sizes=None, **keys):
        chosen = configure(**({"strategy": "fedavg"} | keys))
        return Round(chosen, clients, server_round, nodes, sizes)

    return make
