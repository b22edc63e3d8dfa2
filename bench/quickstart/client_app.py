"""The client: trains for an epoch."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from task import client_batches, make_net, train

app = ClientApp()


@app.train()
def local_epoch(msg: Message, context: Context) -> Message:
    """Train the model that came, on this client's images."""
    net = make_net()
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    node, config = context.node_config, dict(context.run_config)
    batches = client_batches(config, int(node["partition-id"]), int(node["num-partitions"]))
    loss = train(net, batches, config)
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(batches.dataset)})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=msg)
