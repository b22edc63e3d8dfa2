"""Every value of the key has a strategy of its own."""

from typing import get_args

import pytest

from fedeas_app.settings import Settings
from fedeas_app.strategies.fedavg import FedAvg
from fedeas_app.strategies.fedoui import FedOui
from fedeas_app.strategies.fedyogi import FedYogi
from fedeas_app.strategies.registry import STRATEGIES
from fedeas_app.strategies.scaffold import Scaffold


def test_the_registry_holds_what_the_settings_allow():
    assert set(STRATEGIES) == set(get_args(Settings.model_fields["strategy"].annotation))


def test_no_two_names_stand_for_one_strategy():
    assert len(set(STRATEGIES.values())) == len(STRATEGIES)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("fedavg", FedAvg), ("fedoui", FedOui), ("scaffold", Scaffold), ("fedyogi", FedYogi)],
)
def test_the_name_gives_the_strategy_of_the_plan(begin, name, kind):
    strategy = begin(clients=4, strategy=name).strategy
    assert type(strategy) is kind
    assert list(strategy.plan.nodes) == [0, 1, 2, 3]
    assert strategy.settings.strategy == name
