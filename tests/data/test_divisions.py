"""Which images are held out for testing where a dataset has no test split."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from fedeas_app.data import divisions

LABELS = st.lists(st.integers(0, 5), min_size=1, max_size=80).map(np.array)


def test_hold_out_never_changes():
    """The shipped generator depends on it: were this to fail, it has seen test images."""
    labels = load_digits(return_X_y=True)[1]
    train, test = divisions.hold_out(labels)
    assert test[:8].tolist() == [11, 30, 34, 41, 43, 44, 45, 47]
    assert sorted([*train, *test]) == list(range(1797))


@given(LABELS)
def test_a_fifth_of_each_class_is_held_out_where_it_can_be(labels):
    train, test = divisions.hold_out_where_possible(labels)
    assert sorted([*train, *test]) == list(range(len(labels)))
    assert train.tolist() == sorted(train)
    assert test.tolist() == sorted(test)
    for label in set(labels.tolist()):
        size = labels.tolist().count(label)
        held_out = labels[test].tolist().count(label)
        assert held_out == int(size / 5 + 0.5)  # 1 or 2 stay, 3 give one
        assert held_out < size


@given(LABELS)
def test_what_is_held_out_of_a_class_does_not_depend_on_the_others(labels):
    """A site that gets a class more goes on testing on the same images of the old ones."""
    more = np.concatenate([labels, [9, 9, 9, 9]])
    old = divisions.hold_out_where_possible(labels)[1].tolist()
    new = divisions.hold_out_where_possible(more)[1].tolist()
    assert [row for row in new if row < len(labels)] == old
    assert divisions.hold_out_where_possible(labels)[1].tolist() == old


def test_all_of_a_dataset_may_be_for_one_purpose():
    labels = np.array([1, 0, 1])
    train, test = divisions.ALL_FOR_TRAINING.rows(labels)
    assert (train.tolist(), test.tolist()) == ([0, 1, 2], [])
    train, test = divisions.ALL_FOR_TESTING.rows(labels)
    assert (train.tolist(), test.tolist()) == ([], [0, 1, 2])


def test_divisions_have_names_of_their_own():
    named = (divisions.FIFTH, divisions.FIFTH_WHERE_POSSIBLE,
             divisions.ALL_FOR_TRAINING, divisions.ALL_FOR_TESTING)  # fmt: skip
    assert len({division.name for division in named}) == 4
