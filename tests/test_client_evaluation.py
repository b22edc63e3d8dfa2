"""The accuracy of a run without a test set, as its clients tell it."""

import numpy as np
import pytest
from fake_grid import FakeGrid, by_superlink
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord

from fedeas_app import messages
from fedeas_app.client_evaluation import ClientEvaluation
from fedeas_app.errors import UserError

NOTHING = ArrayRecord({"w": Array(np.zeros(1, np.float32))})


def evaluate(configure, answers):
    """Ask four clients that answer as given: (n, accuracy, loss), an error's text, or not."""
    settings = configure(round_timeout=0.3)

    def tamper(partition, request, reply):
        answer = answers[partition]
        if answer is None:
            return None
        if isinstance(answer, str):
            return by_superlink(Message(Error(2, answer), reply_to=request))
        keys = ("num-examples", "accuracy", "loss")
        return messages.reply(request, MetricRecord(dict(zip(keys, answer, strict=True))))

    grid = FakeGrid(settings, tamper=tamper, shuffle=3)
    nodes = {partition: node for node, partition in grid.partitions.items()}
    return ClientEvaluation(grid, nodes, settings)(NOTHING)


def test_the_mean_is_over_images(configure):
    found = evaluate(configure, [(10, 0.5, 1.0), (30, 1.0, 3.0), (0, 0.0, 0.0), (60, 0.25, 0.5)])
    assert found == {
        "accuracy": pytest.approx((5 + 30 + 15) / 100),
        "loss": pytest.approx((10 + 90 + 30) / 100),
        "held-out": 100,
    }


@pytest.mark.parametrize(
    "wrong",
    ["gone", None, (5, 1.5, 1.0), (5, 0.5, float("nan")), (5, 0.5, -1.0), (-5, 0.5, 1.0),
     (5, 1, 1.0), (5.0, 0.5, 1.0), (5, [0.5], 1.0)],
)  # fmt: skip
def test_a_client_that_fails_does_not_count(configure, caplog, wrong):
    found = evaluate(configure, [(10, 0.5, 1.0), (10, 1.0, 2.0), wrong, (20, 0.25, 3.0)])
    assert found == {"accuracy": pytest.approx(0.5), "loss": pytest.approx(2.25), "held-out": 40}


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (["gone", "gone", "lost", "gone"], r"gone \(3 clients\) lost Set test-dataset"),
        ([(0, 0.0, 0.0)] * 4, "none of them holds out an image. Set test-dataset"),
    ],
)
def test_without_any_accuracy_the_run_ends_with_the_reasons(configure, answers, words):
    with pytest.raises(UserError, match=words):
        evaluate(configure, answers)
