"""A hostile client in the rounds of the generator: what does not count, and what is limited."""

import json

import numpy as np
import pytest
from fake_grid import FakeGrid
from flwr.app import Array, ArrayRecord, Context, RecordDict

import server_app
from fedeas_app.generators.federated.local import EMBEDDING
from fedeas_app.generators.federated.options import for_rounds
from fedeas_app.generators.federated.strategy import make_strategy
from fedeas_app.preparation import Plan
from fedeas_app.strategies.updates import Updates


def first_round(settings, forge, kinds=("train.generator",)):
    """Return the line of round 1, in which partition 1 forges its replies of these kinds."""

    def tamper(partition, request, reply):
        if partition == 1 and request.metadata.message_type in kinds:
            forge(request, reply)
        return reply

    grid = FakeGrid(settings, settings.num_clients, tamper=tamper)
    server_app.main(grid, Context(1, 0, {}, RecordDict(), settings.to_flat()))
    path = settings.output_path / settings.run_name / "generator.jsonl"
    return json.loads(path.read_text(encoding="utf-8").splitlines()[0])


def network_of(msg):
    return {name: array.numpy() for name, array in msg.content["arrays"].items()}


def changed(msg, change):
    forged = {name: Array(change(value)) for name, value in network_of(msg).items()}
    msg.content["arrays"] = ArrayRecord(forged)


def not_finite(request, reply):
    changed(reply, lambda value: np.where(np.arange(len(value)) == 5, np.nan, value))


def thousandfold(request, reply):
    reply.content["metrics"]["num-examples"] *= 1000


@pytest.mark.parametrize(
    ("forge", "reason"), [(not_finite, "not finite"), (thousandfold, "when the client prepared")]
)
def test_what_is_no_honest_reply_does_not_count(job, forge, reason):
    line = first_round(job(generator_rounds=1), forge)
    assert list(line["weights"]) == ["0", "2"]
    assert reason in line["failures"]["1"]


def test_a_thousandfold_number_from_the_start_gets_no_larger_share_than_allowed(job):
    kinds = ("query.presence", "train.generator")
    free = first_round(job("free", generator_rounds=1), thousandfold, kinds)
    settings = job("limited", generator_rounds=1, max_client_weight=0.4)
    limited = first_round(settings, thousandfold, kinds)
    assert free["weights"]["1"] > 0.9
    assert limited["weights"]["1"] == pytest.approx(0.4)


def test_a_hundredfold_update_counts_with_the_median_norm(job):
    def hundredfold(request, reply):
        (sent,) = network_of(request).values()
        changed(reply, lambda value: sent + 100 * (value - sent))

    settings = job(generator_rounds=1, generator_clip_norm="median")
    line = first_round(settings, hundredfold)
    largest, middle, _ = sorted(line["norms"].values(), reverse=True)
    assert line["norms"]["1"] == largest > 10 * middle
    assert line["clipped-by"]["1"] * largest == pytest.approx(middle)


def test_a_row_that_one_client_alone_moves_takes_all_of_its_clipped_update(configure):
    """Rows 4 and 0 of an update that counts by half: the row moves by 2, whatever its share."""
    settings = for_rounds(configure(generator="federated", generator_embeddings="movers"))
    strategy = make_strategy(settings, Plan(0.0, (), {0: 1, 1: 2}, {}), [EMBEDDING])
    start = ArrayRecord({EMBEDDING: Array(np.zeros((2, 3), np.float32))})
    alone = np.array([[4, 4, 4], [0, 0, 0]], np.float32)
    with Updates(start) as models:
        models.add(0, ArrayRecord({EMBEDDING: Array(alone)}))
        models.add(1, start)
        models.clip({0: 0.5, 1: 1.0}, [EMBEDDING])
        merged = strategy.merge(models, {0: 0.1, 1: 0.9})
    assert merged[EMBEDDING].numpy().tolist() == [[2] * 3, [0] * 3]
