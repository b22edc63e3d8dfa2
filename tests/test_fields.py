"""Values of messages: what they have to be, or an error that names the key."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedeas_app import fields

ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(),
    st.lists(st.one_of(st.integers(), st.floats(), st.booleans(), st.text())),
)  # fmt: skip


def is_number(value):
    return type(value) in (int, float) and 0 <= value < math.inf


@given(ANYTHING)
def test_a_whole_number_is_one_within_limits_or_an_error(value):
    if type(value) is int and 2 <= value <= 9:
        assert fields.whole({"k": value}, "k", 2, 9) == value
        return
    with pytest.raises(ValueError, match=r"^k is ") as told:
        fields.whole({"k": value}, "k", 2, 9)
    assert len(str(told.value)) < 200


@given(ANYTHING)
def test_a_number_is_finite_and_not_negative_or_an_error(value):
    if is_number(value):
        assert fields.number({"k": value}, "k") == value
    else:
        with pytest.raises(ValueError, match=r"(?s)^k is .* not a number of at least 0$"):
            fields.number({"k": value}, "k")


@given(ANYTHING)
def test_numbers_are_a_short_list_of_such_or_an_error(value):
    if isinstance(value, list) and 1 <= len(value) <= 3 and all(map(is_number, value)):
        assert fields.numbers({"k": value}, "k", 3) == value
        return
    with pytest.raises(ValueError, match=r"^k is "):
        fields.numbers({"k": value}, "k", 3)


@pytest.mark.parametrize("read", [fields.whole, fields.number, fields.text])
def test_what_is_not_there_is_named(read):
    with pytest.raises(ValueError, match=r"^k is None, not a"):
        read({}, "k")


def test_a_text_is_short_or_an_error_that_is():
    assert fields.text({"k": "abc"}, "k") == "abc"
    with pytest.raises(ValueError, match=r"^k is 'x+\.\.\., not a text of up to 1000 characters$"):
        fields.text({"k": "x" * 100_000}, "k")
