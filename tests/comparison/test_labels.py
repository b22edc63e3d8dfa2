"""What arms are called, and what their labels leave unsaid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedeas_app.comparison.labels import labels, number_text, unsaid, usual

POLICIES = ["none", "uniform", "missing-only", "fedeas"]


def arm(policy, epochs=1, noise=0.0):
    return {"policy": policy, "local-epochs": epochs, "noisy-fraction": noise}


def named(arms):
    return dict(zip(labels(arms), arms, strict=True))


def test_what_nearly_all_arms_share_is_not_repeated():
    arms = [*map(arm, POLICIES), arm("none", epochs=6)]
    assert usual(arms) == {"local-epochs": 1, "noisy-fraction": 0.0}
    assert labels(arms) == [*POLICIES, "none local-epochs=6"]
    assert unsaid(named(arms)) == "local-epochs=1 noisy-fraction=0"


def test_three_quarters_are_not_nearly_all():
    arms = [*map(arm, POLICIES[:3]), arm("none", epochs=6)]
    assert labels(arms)[0] == "none local-epochs=1"


def test_an_arm_to_which_a_key_does_not_matter_has_no_say_in_it():
    arms = [{"policy": "none"}, {"policy": "full", "x": 1}, {"policy": "fedeas", "x": 2}]
    assert labels(arms) == ["none", "full x=1", "fedeas x=2"]
    assert unsaid(named(arms)) == ""


@pytest.mark.parametrize("key", ["strategy", "policy", "beta", "alpha"])
def test_what_the_comparison_is_about_is_always_said(key):
    arms = [{key: 1, "seed-like": number} for number in range(9)]
    assert key not in usual(arms)


def test_no_label_is_empty():
    base = {"a": 0, "b": 0, "c": 0, "d": 0, "e": 0}
    arms = [base, *({**base, key: 1} for key in base)]
    assert labels(arms) == ["a=0 b=0 c=0 d=0 e=0", "a=1", "b=1", "c=1", "d=1", "e=1"]


def test_where_short_labels_would_be_alike_all_is_said():
    arms = [
        *({"policy": p, "x": 1} for p in POLICIES),
        {"policy": "full", "x": 1},
        {"policy": "none"},
    ]
    assert labels(arms)[0] == "none x=1"
    assert unsaid(named(arms)) == ""


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 4), min_size=1, max_size=12, unique=True))
def test_labels_are_unique_and_say_what_they_leave_out(values):
    arms = [dict(zip(("policy", "x", "y", "z"), each, strict=True)) for each in values]
    found = labels(arms)
    assert len(set(found)) == len(arms)
    left_out = dict(text.split("=") for text in unsaid(named(arms)).split())
    for label, each in zip(found, arms, strict=True):
        said = dict(word.split("=") for word in label.split()[1:])
        assert {**left_out, **said} == {k: str(v) for k, v in each.items() if k != "policy"}


@pytest.mark.parametrize(
    ("value", "text"), [(12.0, "12"), (True, "true"), (0.12345678, "0.12345678"), ("x", "x")]
)
def test_values_are_written_as_a_person_writes_them(value, text):
    assert number_text(value) == text
