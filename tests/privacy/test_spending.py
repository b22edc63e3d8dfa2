"""What a run has told of each client, and what it says of that."""

import json

import pytest

from fedeas_app.errors import UserError
from fedeas_app.privacy.accounting import epsilon_of
from fedeas_app.privacy.spending import LEDGER, Spending
from fedeas_app.settings import Settings


def settings(**keys):
    central = {"privacy": "central", "strategy": "fedavg", "clip-norm": 0.5, "noise-multiplier": 2}
    return Settings.parse(central | {key.replace("_", "-"): value for key, value in keys.items()})


def told(directory):
    return json.loads((directory / LEDGER).read_text(encoding="utf-8"))


def test_the_client_asked_most_often_decides(tmp_path):
    spending = Spending(settings(), tmp_path)
    for cohort in ([0, 1], [1, 2], [1, 0]):
        spending.note(cohort)
    kept = told(tmp_path)
    assert kept == spending.to_dict()
    assert kept["releases"] == {"0": 2, "1": 3, "2": 1}
    assert kept["epsilon"] == epsilon_of(3, 2.0, 1e-5)
    assert kept["epsilon-of-a-round"] == epsilon_of(1, 2.0, 1e-5)
    expected = {key: value for key, value in kept.items() if key != "releases"}
    assert spending.summary() == {"privacy": expected}


def test_what_a_client_sends_itself_may_differ_by_twice_the_norm(tmp_path):
    spending = Spending(settings(privacy="local", privacy_delta=1e-6), tmp_path)
    spending.note([4])
    assert spending.to_dict()["epsilon"] == epsilon_of(1, 1.0, 1e-6)


def test_a_round_gone_through_again_counts_again(tmp_path):
    first = Spending(settings(), tmp_path)
    first.note([0, 1])
    first.note([0, 1])
    again = Spending(settings(), tmp_path, goes_on=True)
    again.note([0, 1])
    assert told(tmp_path)["releases"] == {"0": 3, "1": 3}


def test_a_run_that_begins_again_before_its_first_checkpoint_counts_on(tmp_path):
    Spending(settings(), tmp_path).note([0])
    again = Spending(settings(), tmp_path)
    again.note([0])
    assert told(tmp_path)["releases"] == {"0": 2}


@pytest.mark.parametrize(
    "content", [None, "", "{}", "[]", '{"releases": {"0": -1}}', '{"releases": {"x": 1}}', "\x00"]
)
def test_a_run_that_does_not_know_what_it_has_told_cannot_go_on(tmp_path, content):
    if content is not None:
        (tmp_path / LEDGER).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"privacy.json cannot be read .*; begin a new run"):
        Spending(settings(), tmp_path, goes_on=True)


def test_without_privacy_nothing_is_counted_or_said(tmp_path):
    spending = Spending(Settings.parse({}), tmp_path, goes_on=True)
    spending.note([0])
    assert (spending.summary(), spending.outlook([[0]])) == ({}, [])
    assert not list(tmp_path.iterdir())


def test_the_outlook_counts_what_is_still_to_come(tmp_path):
    spending = Spending(settings(), tmp_path)
    spending.note([1])
    (line,) = spending.outlook([[0, 1], [0], [0]])
    one, total = epsilon_of(1, 2.0, 1e-5), epsilon_of(3, 2.0, 1e-5)
    assert line == (
        "Privacy (central, clip-norm 0.5, noise-multiplier 2): "
        f"ε = {one:.2f} a round, {total:.2f} for who takes part in 3 rounds, at δ = 1e-05. "
        "It covers the updates alone."
    )
    assert spending.to_dict()["releases"] == {"1": 1}


GENERATOR = {"generator": "federated", "generator_clip_norm": 3.0}


@pytest.mark.parametrize(
    ("keys", "norms"),
    [
        ({}, {"clip-norm": 0.5}),
        (GENERATOR, {"clip-norm": 0.5, "generator-clip-norm": 3.0}),
        (GENERATOR | {"generator_only": True}, {"generator-clip-norm": 3.0}),
        (GENERATOR | {"policy": "none"}, {"clip-norm": 0.5}),  # then it is not trained
    ],
)
def test_the_norm_of_all_that_is_trained_is_stated(tmp_path, keys, norms):
    spending = Spending(settings(**keys), tmp_path)
    spending.note([0])
    assert {key: n for key, n in told(tmp_path).items() if "clip-norm" in key} == norms
    (line,) = spending.outlook([])
    begin = ", ".join(f"{key} {norm:g}" for key, norm in norms.items())
    assert line.startswith(f"Privacy (central, {begin}, noise-multiplier 2): ")


def test_noise_of_the_seed_hides_nothing(tmp_path):
    spending = Spending(settings(noise_source="seed"), tmp_path)
    spending.note([0])
    assert told(tmp_path)["epsilon"] is None
    assert "none, as the noise follows from the seed" in spending.outlook([[0]])[0]
