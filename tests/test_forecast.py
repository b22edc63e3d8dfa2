"""The forecast against hand-worked plans, and tables of counts of every bad kind."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedeas_app.budget import POLICIES
from fedeas_app.errors import UserError
from fedeas_app.forecast import forecast, read_counts

# One client holds a single class of two, the other is balanced. With β = 12:
# client 0: √(50/2) = 5, H̃ = 0, b = 60, so classes get 60 − 50 and 60 − 0; client 1: b = 0.
COUNTS = np.array([[50, 0], [7, 7]])
TOTALS = {
    "none": 0,
    "fedeas": 70,
    "full": 50,
    "uniform": 70,
    "size-proportional": 70,
    "missing-only": 70,
    "fedeas-no-entropy": 10 + 60 + 2 * (31 - 7),  # client 1: ⌊√7 · 12⌋ = ⌊31.75⌋
    "fedeas-linear": (300 - 50) + 300,  # client 0: 25 · 12
}


@pytest.fixture
def table(tmp_path):
    """Return the path of a table with this content."""

    def write(content):
        path = tmp_path / "counts.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_a_plan_worked_by_hand():
    result = forecast(COUNTS, "fedeas", 12.0)
    assert result.allocation.tolist() == [[10, 60], [0, 0]]
    assert result.synthetic == 70
    assert result.totals == TOTALS
    assert tuple(result.totals) == POLICIES
    assert result.imbalance_before == pytest.approx(50 / 64)  # 1 − H̃ is 1 and 0
    assert result.imbalance_after == 0.0  # 60, 60 and 7, 7


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_makes_the_total_that_is_forecast(policy):
    result = forecast(COUNTS, policy, 12)
    assert result.policy == policy
    assert result.synthetic == TOTALS[policy]
    assert result.totals == TOTALS


def test_auto_beta_is_the_smallest_even_one_that_halves_the_imbalance():
    # b = ⌊5β⌋ for client 0: nothing before it reaches 50 but class 1, which gets 5β.
    # β = 2: 10 images, 50 + 10: H̃ = H(1/6) = 0.65 bit, so 1 − H̃ = 0.35. I falls from 50/64 = 0.781
    # to 0.35 · 60/74 = 0.284, by 64 %, at 10/74 = 13.5 % synthetic.
    result = forecast(COUNTS, "fedeas", "auto")
    assert result.beta == 2.0
    assert result.allocation.tolist() == [[0, 10], [0, 0]]


def test_the_plain_form_adds_up():
    plain = forecast(COUNTS, "fedeas", 12.0).to_dict()
    assert plain["policy"] == "fedeas"
    assert plain["beta"] == 12.0
    assert (plain["real"], plain["synthetic"]) == (64, 70)
    assert plain["totals"] == TOTALS
    assert plain["clients"][0] == {
        "partition": 0,
        "num-examples": 50,
        "synthetic": 70,
        "counts": [50, 0],
        "synthetic-counts": [10, 60],
        "imbalance-before": 1.0,
        "imbalance-after": 0.0,
    }
    assert [client["partition"] for client in plain["clients"]] == [0, 1]


@pytest.mark.parametrize(
    ("counts", "policy", "beta"),
    [
        ([[10, 0]], "fedeas", 1e16),  # beyond what β may be
        ([[9 * 10**14, 0]] * 8, "full", 12.0),  # real and synthetic together exceed 2^53
        ([[10**15 - 1] * 10], "none", 12.0),
        ([[1, 0]], "fedeas", "auto"),  # one image cannot stay below 25 %
    ],
)
def test_what_cannot_be_worked_out_is_a_sentence(counts, policy, beta):
    with pytest.raises(UserError):
        forecast(np.array(counts), policy, beta)


@given(
    st.lists(st.lists(st.integers(0, 10**15 - 1), min_size=3, max_size=3), min_size=1, max_size=4),
    st.sampled_from(POLICIES),
    st.one_of(st.just("auto"), st.floats(0, 1e6)),
)
@settings(max_examples=80, deadline=None)
def test_any_counts_give_a_plan_or_a_sentence(counts, policy, beta):
    try:
        result = forecast(np.array(counts), policy, beta)
    except UserError:
        return
    plain = result.to_dict()
    assert plain["synthetic"] == plain["totals"][policy] >= 0
    assert sum(client["synthetic"] for client in plain["clients"]) == plain["synthetic"]


GOOD = {
    "plain": "1,2\n3,4\n",
    "header": "cat,dog\n1,2\n3,4\n",
    "numbered clients": ",cat,dog\n0,1,2\n1,3,4\n",
    "named clients": "Site,cat,dog\nParis,1,2\nRome,3,4\n",
    "mark and header": b"\xef\xbb\xbfcat,dog\n1,2\n3,4\n",
    "mark alone": b"\xef\xbb\xbf1,2\n3,4\n",
    "windows": "1,2\r\n3,4\r\n",
    "old mac": "1,2\r3,4",
    "no last newline": "1,2\n3,4",
    "blank lines": "\n1,2\n\n\n3,4\n\n",
    "blank lines round the header": "\ncat,dog\n\n1,2\n3,4\n",
    "spaces": " 1 , 2\n\t3,4 \n",
    "quotes": '"1","2"\n"3",4\n',
    "leading zeros": "01,2\n3,004\n",
}


@pytest.mark.parametrize("name", GOOD)
def test_a_table_is_read(table, name):
    counts = read_counts(table(GOOD[name]))
    assert counts.dtype == np.int64
    assert counts.tolist() == [[1, 2], [3, 4]]


def test_large_counts_are_exact(table):
    assert read_counts(table("999999999999999,0")).tolist() == [[999_999_999_999_999, 0]]


BAD = {
    "empty": ("", "holds no client"),
    "blank": ("\n\n", "holds no client"),
    "header alone": ("cat,dog\n", "holds no client"),
    "short row": ("1,2\n3\n", "line 2: 1 columns, but the first client has 2"),
    "long row": ("a,b\n1,2\n\n3,4,5\n", "line 4: 3 columns, but the first client has 2"),
    "negative": ("1,2\n3,-4\n", "line 2: '-4' is not a count"),
    "negative first": ("-1,-2\n3,4\n", "line 1: '-1' is not a count"),
    "float": ("1,2\n3,4.0\n", "line 2: '4.0' is not a count"),
    "float first": ("1.5,2.5\n3,4\n", "line 1: '1.5' is not a count"),
    "exponent": ("1,2\n1e3,4\n", "line 2: '1e3' is not a count"),
    "text": ("1,2\nmany,4\n", "line 2: 'many' is not a count"),
    "two headers": ("a,b\nc,d\n1,2\n", "line 2: 'c' is not a count"),
    "missing value": ("1,2\n3,\n", "line 2: '' is not a count"),
    "nan": ("1,2\nnan,4\n", "line 2: 'nan' is not a count"),
    "other digits": ("1,2\n³,4\n", "line 2: '³' is not a count"),
    "underscore": ("1,2\n1_0,4\n", "line 2: '1_0' is not a count"),
    "plus": ("1,2\n+3,4\n", "line 2: '\\+3' is not a count"),
    "huge": (f"1,2\n{'9' * 30},4\n", "is not a count"),
    "huge cell": (f"1,2\n{'9' * 200_000},4\n", "cannot be read"),
    "semicolons": ("1;2\n3;4\n", "'3;4' is not a count"),
    "a name without counts": ("client,cat,dog\n0\n", "holds no client"),
    "not text": (b"\xff\xfe1\x00,\x002\x00", "cannot be read"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_is_refused_with_its_line(table, name):
    content, words = BAD[name]
    with pytest.raises(UserError, match=words) as caught:
        read_counts(table(content))
    assert "counts.csv" in str(caught.value)


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.csv cannot be read"):
        read_counts(tmp_path / "none.csv")
    with pytest.raises(UserError, match="cannot be read"):
        read_counts(tmp_path)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "counts.csv"


TABLE = st.one_of(
    st.text(),
    st.text("0123456789,\n\r\"' .-a\x1c\u2003\x00"),
    st.lists(st.lists(st.integers(), max_size=3), max_size=3).map(
        lambda rows: "\n".join(",".join(map(str, row)) for row in rows)
    ),
)


@given(TABLE)
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_table_or_a_sentence(scratch, text):
    scratch.write_bytes(text.encode())
    try:
        counts = read_counts(scratch)
    except UserError:
        return
    assert counts.ndim == 2
    assert counts.size > 0
    assert counts.min() >= 0


@given(st.binary())
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_a_table_or_a_sentence(scratch, data):
    scratch.write_bytes(data)
    try:
        assert read_counts(scratch).dtype == np.int64
    except UserError as error:
        assert "counts.csv" in str(error)  # noqa: PT017  # either outcome is right


@given(st.lists(st.lists(st.integers(0, 10**15 - 1), min_size=2, max_size=2), min_size=1))
@settings(max_examples=50, deadline=None)
def test_what_is_written_is_read(scratch, rows):
    scratch.write_text("\n".join(",".join(map(str, row)) for row in rows))
    assert read_counts(scratch).tolist() == rows


def test_what_another_policy_cannot_do_does_not_matter():
    # fedeas-linear alone would ask for more than 2^53, and nobody lacks a class
    assert forecast(np.array([[100, 1]]), "none", 1e15).totals["fedeas-linear"] is None
    totals = forecast(np.array([[100, 1], [90, 2]]), "fedeas", 12.0).totals
    assert totals["missing-only"] is None
    assert totals["uniform"] == totals["fedeas"] > 0
