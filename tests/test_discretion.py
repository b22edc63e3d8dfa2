"""What the server hears of a client's errors."""

import logging

import pytest
from flwr.app import Context, RecordDict

from fedeas_app.discretion import discreet
from fedeas_app.errors import PublicError, UserError


def answer_with(error, dataset="own"):
    def answer(msg, context):
        raise error

    context = Context(1, 5, {"partition-id": 4}, RecordDict(), {"dataset": dataset})
    return discreet(None, context, answer)


@pytest.fixture
def _heard(monkeypatch):
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)


@pytest.mark.usefixtures("_heard")
@pytest.mark.parametrize(
    ("error", "kind"), [(UserError("/data/anna.png"), ""), (OSError("/data/x"), " (OSError)")]
)
def test_reasons_stay_at_the_node_with_own_data(caplog, error, kind):
    with pytest.raises(PublicError) as caught:
        answer_with(error)
    assert str(caught.value) == f"Partition 4 failed{kind}; the log of its SuperNode says why."
    assert str(error) in caplog.text
    assert caught.value.__cause__ is None


def test_reasons_are_told_where_the_data_are_shared():
    with pytest.raises(UserError, match="anna"):
        answer_with(UserError("anna"), "digits")


def test_what_holds_nothing_of_the_node_is_told_always():
    with pytest.raises(PublicError, match="the run asks for"):
        answer_with(PublicError("the run asks for"))


def test_an_answer_is_handed_on():
    context = Context(1, 5, {}, RecordDict(), {"dataset": "own"})
    assert discreet("msg", context, lambda msg, context: (msg, context)) == ("msg", context)
