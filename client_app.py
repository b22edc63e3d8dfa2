"""The client's side of a run: prepare once, then train and evaluate when asked to."""

import time

from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

from fedeas_app import messages
from fedeas_app.client import Client
from fedeas_app.devices import repeatable, resolve_device
from fedeas_app.discretion import discreet
from fedeas_app.evaluation import Evaluator
from fedeas_app.local import Job, train_locally
from fedeas_app.local.job import trainable

app = ClientApp(mods=[discreet])


@app.query("outlook")
def outlook(msg: Message, context: Context) -> Message:
    """Say what the server must add up first, where the policy or β depends on all clients."""
    client = Client.from_context(context)
    return messages.reply(msg, messages.outlook_answer(client, msg))


@app.query("prepare")
def prepare(msg: Message, context: Context) -> Message:
    """Work out which images are missing, make them, cache them, and answer with totals alone."""
    started = time.perf_counter()
    client, order = Client.from_context(context), messages.read_order(msg)
    client.check()
    with repeatable(client.settings.threads):
        synthesis = client.synthesise(order)
    seconds = time.perf_counter() - started
    metrics = messages.preparation_answer(client, order, synthesis, seconds)
    return messages.reply(msg, metrics, generator=synthesis.generator)


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Train on real and synthetic images; answer with the weights, n_k, OUI and the loss."""
    client, server_round = Client.from_context(context), messages.read_round(msg)
    device, state = resolve_device(client.settings.device), client.state(messages.read_state(msg))
    with repeatable(client.settings.threads):
        model = client.model()
        model.load_state_dict(msg.content.array_records[messages.ARRAYS].to_torch_state_dict())
        model.to(device)
        examples = client.examples(messages.read_order(msg)).to(device)
        received, kept = messages.read_extras(msg, trainable(model)), state.load(device)
        rng = client.rng(server_round)
        outcome = train_locally(Job(model, examples, client.settings, rng, received, kept))
        oui = client.oui(model, device)
    state.save(server_round, outcome.state)
    metrics = messages.train_answer(client, examples, oui, outcome.loss, state.lost(kept))
    return messages.reply(msg, metrics, ArrayRecord(model.state_dict()), outcome.sent)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    """Evaluate the global model on the client's own images that it never trains on."""
    client = Client.from_context(context)
    evaluator = Evaluator(client.model(), client.held_out, client.settings)
    result = evaluator(msg.content.array_records[messages.ARRAYS])
    return messages.reply(msg, messages.evaluate_answer(client, result))
