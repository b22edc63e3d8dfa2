"""Numbers in words, whatever a record holds."""

import pytest

from fedeas_app.wording import (
    duration,
    in_one_line,
    listed,
    number,
    percent,
    plural,
    seconds,
    whole,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.12345, "12.35%"), (1, "100.00%"), (None, "–"), ("<b>", "<b>"), (True, "True")],
)
def test_percent(value, text):
    assert percent(value) == text


def test_other_numbers():
    assert whole(1234567) == "1,234,567"
    assert number(float("nan"), ".2f") == "nan"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (60, "1 min 0 s"),
        (725.4, "12 min 5 s"),
        (3599.9, "1 h 0 min"),
        (12_000, "3 h 20 min"),
        (360_000, "100 h 0 min"),
        (None, "–"),
        ("soon", "soon s"),
    ],
)
def test_times_are_for_a_person_and_need_not_break(value, text):
    assert duration(value) == text
    assert seconds(value) == text.replace(" ", "\N{NO-BREAK SPACE}")


def test_counts_agree_with_their_nouns():
    assert [plural(n, "client") for n in (0, 1, 1200)] == ["0 clients", "1 client", "1,200 clients"]
    assert plural(2, "class", "classes") == "2 classes"


def test_a_long_list_is_cut():
    assert listed(range(3)) == "0, 1, 2"
    assert listed(list(range(1005)), 2) == "0, 1 and 1,003 more"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("fedavg", "fedavg"),
        (0.1, "0.1"),
        ("größer", "größer"),
        ("a\nb", "'a\\nb'"),
        ("\x1b[2J", "'\\x1b[2J'"),
    ],
)
def test_no_text_breaks_a_line(value, text):
    assert in_one_line(value) == text
