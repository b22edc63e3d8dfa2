"""When a run whose rounds fail is given up."""

import pytest

from fedeas_app.errors import UserError
from fedeas_app.patience import Patience
from fedeas_app.strategies.report import Participant, RoundReport

GOOD = RoundReport((Participant(0, 5, 0.5, 1.0, weight=1.0),), {1: "gone"})
BAD = RoundReport((), {0: "Out of memory.", 2: "gone", 3: "Out of memory."})


def test_the_first_failed_round_ends_a_run_by_default(configure):
    patience = Patience(configure())
    patience.note(1, GOOD)
    with pytest.raises(UserError) as caught:
        patience.note(2, BAD)
    assert str(caught.value) == "Round 2 has no usable reply: Out of memory. (2 clients) gone"


def test_more_can_be_allowed_in_a_row(configure):
    patience = Patience(configure(max_failed_rounds=3))
    for number, report in enumerate([BAD, BAD, GOOD, BAD, BAD], 1):
        patience.note(number, report)
    with pytest.raises(UserError, match=r"^Round 6 has no usable reply, like the 2 before: Out of"):
        patience.note(6, BAD)
