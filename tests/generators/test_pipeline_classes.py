"""From the dataset's classes to what a pretrained pipeline calls them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedeas_app.errors import UserError
from fedeas_app.generators import pipeline_classes
from fedeas_app.settings import Settings

LABELS = {
    "0": "tench, Tinca tinca",
    "1": "goldfish",
    "2": "crane",
    "3": "crane",
    "4": "electric ray, crampfish",
}


def settings(classes):
    return Settings.parse({"generator-classes": classes})


def ids(*names, labels=LABELS, numbers=True):
    return pipeline_classes.class_ids("'x'", names, labels, 5, numbers=numbers)


def test_the_datasets_own_names_are_the_default():
    assert pipeline_classes.words(settings(""), ("a, b", "c")) == ("a, b", "c")


def test_the_users_names_come_in_the_order_of_the_dataset():
    assert pipeline_classes.words(settings("one, two words ,3"), tuple("abc")) == (
        "one",
        "two words",
        "3",
    )


@pytest.mark.parametrize(("given_", "count"), [("x", 1), ("x,y,z", 3), ("x,", 1)])
def test_a_wrong_number_of_names_is_told(given_, count):
    with pytest.raises(UserError, match=f"names {count} classes, but the dataset has 2; .* a, b"):
        pipeline_classes.words(settings(given_), ("a", "b"))


def test_prompts_hold_the_names():
    made = pipeline_classes.prompts("{class}, a {class}!", ("ice_bear", "cat"))
    assert made == ("ice bear, a ice bear!", "cat, a cat!")


@given(
    st.lists(st.text("abc {}_", min_size=1), min_size=1, unique_by=lambda s: s.replace("_", " "))
)
def test_whatever_a_class_is_called_fits_into_a_prompt(names):
    made = pipeline_classes.prompts("<{class}>", names)
    assert made == tuple(f"<{name.replace('_', ' ')}>" for name in names)


def test_a_prompt_without_a_place_for_the_class_is_refused():
    with pytest.raises(UserError, match=r"'a photo', which is the same for every class; .*{class}"):
        pipeline_classes.prompts("a photo", ("a", "b"))


def test_a_class_by_any_of_its_names():
    assert ids("tench", "Goldfish") == (0, 1)
    assert ids("tinca_tinca", "crampfish") == (0, 4)
    assert ids("tench, Tinca tinca") == (0,)


def test_a_class_by_its_number():
    assert ids("4", "goldfish") == (4, 1)
    assert ids("3", "2", labels={}) == (3, 2)


def test_a_name_goes_before_a_number():
    assert ids("0", "1", labels={"0": "1", "1": "0"}) == (1, 0)


def test_a_digit_of_the_dataset_is_no_number_of_the_pipeline():
    with pytest.raises(UserError, match="knows no class '4'; say in generator-classes"):
        ids("4", numbers=False)


@pytest.mark.parametrize("name", ["5", "-1", "cat", "1.0"])
def test_what_the_pipeline_does_not_know_is_named(name):
    with pytest.raises(UserError, match=f"knows no class '{name}'.*names or numbers below 5"):
        ids(name)


def test_near_names_are_told():
    with pytest.raises(UserError, match=r"no class 'gold fish' \(near: 'goldfish'\)"):
        ids("gold fish")


def test_a_pipeline_without_names_takes_numbers():
    with pytest.raises(UserError, match=r"it has no names, so numbers below 5"):
        ids("cat", labels={})


def test_a_name_of_two_classes_is_refused():
    with pytest.raises(UserError, match=r"calls 2 classes 'crane'; .* number of one: 2, 3\."):
        ids("crane")


def test_two_classes_must_not_be_one_to_the_generator():
    with pytest.raises(UserError, match=r"'tench' and '0' are the same to the generator \(0\)"):
        ids("tench", "0")
    with pytest.raises(UserError, match="'a_b' and 'a b' are the same to the generator"):
        pipeline_classes.prompts("{class}", ("a_b", "a b"))
