"""Training that diverges says so, and names what to change."""

import math

import pytest
import torch
from by_hand import Hidden, job

from fedeas_app.client import Client
from fedeas_app.errors import PublicError
from fedeas_app.local import train_locally
from fedeas_app.local.divergence import require_finite

SENTENCE = (
    "Training diverged: the model is not finite any more; lower learning-rate, which is {:g}."
)


@pytest.mark.parametrize("strategy", ["fedavg", "fedprox", "moon"])
def test_a_step_that_is_too_large_is_told_by_every_client_in_the_same_words(configure, strategy):
    settings = configure(strategy=strategy, learning_rate=1e200, local_epochs=3)
    with pytest.raises(PublicError) as caught:
        train_locally(job(Hidden(), settings))
    assert str(caught.value) == SENTENCE.format(1e200)


@pytest.mark.parametrize(
    ("keys", "step"),
    [
        ({"strategy": "fedavgm"}, "1"),
        ({"strategy": "fedadam"}, "0.01"),
        ({"strategy": "fedyogi", "server_learning_rate": 2.5}, "2.5"),
    ],
)
def test_a_servers_step_may_be_to_blame_as_well(configure, keys, step):
    with pytest.raises(PublicError) as caught:
        require_finite([torch.tensor(math.nan)], configure(**keys))
    said = f"{SENTENCE.format(0.05)[:-1]}, or server-learning-rate, which is {step}."
    assert str(caught.value) == said


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_value_is_enough(configure, value):
    whole = torch.ones(3)
    with pytest.raises(PublicError, match=r"lower learning-rate, which is 0\.05"):
        require_finite([whole, torch.tensor([0.0, value])], configure())


def test_whole_numbers_and_finite_values_pass(configure):
    require_finite([torch.tensor(3), torch.ones(2, 2)], configure())


class Overflowing(torch.nn.Module):
    """Finite weights whose layer overflows."""

    def preactivations(self, images):
        return images * 1e38 * 1e38

    def hidden_layers(self, images):
        yield images
        yield self.preactivations(images)


@pytest.mark.parametrize("layers", ["penultimate", "all"])
def test_a_layer_that_overflows_is_told_likewise(configure, layers):
    settings = configure(oui_layers=layers)
    with pytest.raises(PublicError, match="Training diverged"):
        Client(settings, 0, 4).oui(Overflowing(), torch.device("cpu"))
