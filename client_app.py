"""The client's side of a run: prepare once, then train and evaluate when asked to."""

import time
from collections.abc import Mapping

import torch
from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

from fedeas_app import messages
from fedeas_app.client import Client, Order
from fedeas_app.compression import compressed, without_residual
from fedeas_app.devices import repeatable, resolve_device, within_memory
from fedeas_app.discretion import discreet
from fedeas_app.evaluation import Evaluator
from fedeas_app.generators.federated.options import for_rounds
from fedeas_app.generators.federated.transfer import returned
from fedeas_app.local import Job, train_locally
from fedeas_app.local.job import trainable
from fedeas_app.models import Classifier
from fedeas_app.privacy.local import released
from fedeas_app.privacy.noise import source

app = ClientApp(mods=[discreet])


@app.query("outlook")
def outlook(msg: Message, context: Context) -> Message:
    """Say what the server must add up first, where the policy or β depends on all clients."""
    client = Client.from_context(context)
    return messages.reply(msg, messages.outlook_answer(client, msg))


@app.query("presence")
def answer_roll_call(msg: Message, context: Context) -> Message:
    """Say how many real images there are, before a generator is trained on them."""
    client = Client.from_context(context)
    return messages.reply(msg, messages.roll_call_answer(client))


@app.query("generator")
def take_generator(msg: Message, context: Context) -> Message:
    """Keep the generator that was trained; answer how many of its images copy own ones."""
    from fedeas_app.generators.federated.copies import count_copies  # it loads diffusers

    order = Order(generator=messages.read_digest(msg))
    client = Client.from_context(context).told(order)
    client.keep_generator(order, messages.read_generator_files(msg))
    with repeatable(client.settings.threads):
        checked, copies = count_copies(client)
    return messages.reply(msg, messages.hand_out_answer(client, checked, copies))


@app.query("prepare")
def prepare(msg: Message, context: Context) -> Message:
    """Work out which images are missing, make them, cache them, and answer with totals alone."""
    started = time.perf_counter()
    client, order = Client.from_context(context), messages.read_order(msg)
    client.check()
    client.keep_generator(order, messages.read_generator_files(msg))
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
    smaller = f"batch-size is {client.settings.batch_size}, and half of it is too many images"
    with repeatable(client.settings.threads), within_memory(f"{smaller}; set a smaller one"):
        model = client.model()
        model.load_state_dict(msg.content.array_records[messages.ARRAYS].to_torch_state_dict())
        model.to(device)
        examples = client.examples(messages.read_order(msg)).to(device)
        received, kept = messages.read_extras(msg, trainable(model)), state.load(device)
        own, rng = without_residual(kept), client.rng(server_round)
        outcome = train_locally(Job(model, examples, client.settings, rng, received, own))
        oui = client.oui(model, device)
    arrays, residual = outgoing(msg, client, model, kept)
    state.save(server_round, {**outcome.state, **residual})
    metrics = messages.train_answer(client, examples, oui, outcome.loss, state.lost(kept))
    return messages.reply(msg, metrics, arrays, outcome.sent)


def outgoing(
    msg: Message, client: Client, model: Classifier, kept: Mapping[str, torch.Tensor]
) -> tuple[ArrayRecord, dict[str, torch.Tensor]]:
    """Return the model as it leaves the client, private and small if asked to, and what it lost."""
    settings, names = client.settings, trainable(model)
    sent = msg.content.array_records[messages.ARRAYS]
    noise = source(settings, "client", messages.read_round(msg), client.partition_id)
    arrays = released(ArrayRecord(model.state_dict()), sent, names, settings, noise)
    return compressed(arrays, sent, names, kept, settings.compression)


@app.train("generator")
def train_generator(msg: Message, context: Context) -> Message:
    """Train the generator on real images alone; answer with its weights, n_k and the loss."""
    from fedeas_app.generators.federated.client import train_generator  # it loads diffusers

    client, server_round = Client.from_context(context), messages.read_round(msg)
    size = client.settings.generator_batch_size
    smaller = f"generator-batch-size is {size}, and half of it is too many images"
    with repeatable(client.settings.threads), within_memory(f"{smaller}; set a smaller one"):
        arrays = msg.content.array_records[messages.ARRAYS]
        trained, loss = train_generator(client, server_round, arrays)
    noise = source(client.settings, "generator", server_round, client.partition_id)
    weights = released(trained, arrays, list(trained), for_rounds(client.settings), noise)
    return messages.reply(msg, messages.generator_answer(client, loss), returned(weights, arrays))


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    """Evaluate the global model on the client's own images that it never trains on."""
    client = Client.from_context(context)
    evaluator = Evaluator(client.model(), client.held_out, client.settings)
    result = evaluator(msg.content.array_records[messages.ARRAYS])
    return messages.reply(msg, messages.evaluate_answer(client, result))
