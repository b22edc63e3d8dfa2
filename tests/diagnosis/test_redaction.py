"""Whoever made a diagnosis is not named in it."""

from fedeas_app.diagnosis.redaction import redacted


def hide(value):
    return redacted(value, "/home/ada", "ada")


def test_paths_below_home_begin_with_a_tilde():
    assert hide("see /home/ada/runs, or /home/ada.") == "see ~/runs, or ~."
    assert hide("/home/ada") == "~"
    assert hide("/home/adam/x /home/ada.old") == "/home/adam/x /home/ada.old"


def test_the_user_is_hidden_in_other_paths_and_words_are_left():
    assert hide("/data/ada/scans of ada in /data/adamant") == (
        "/data/USER/scans of ada in /data/adamant"
    )


def test_everything_in_lists_and_mappings():
    value = {"a": ["/home/ada/x", 3, None], "b": {"c": "/scratch/ada"}}
    assert hide(value) == {"a": ["~/x", 3, None], "b": {"c": "/scratch/USER"}}


def test_a_home_that_is_the_root_hides_nothing():
    assert redacted("/data/x", "/", "") == "/data/x"
