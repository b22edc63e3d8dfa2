"""The page as HTML: nothing from a record becomes markup, and nothing is asked of a server."""

import json
import re
from itertools import pairwise

import pytest
from strict_page import Page
from written import (
    CLASSES,
    LONG,
    QUOTE,
    SCRIPT,
    add_samples,
    break_off,
    line,
    write_comparison,
    write_run,
)

from fedeas_app.errors import UserError
from fedeas_app.report.page import render

ADDRESSES = {"src", "srcset", "href", "action", "data", "poster", "background"}

pytestmark = pytest.mark.usefixtures("quick_figures")


@pytest.fixture(params=["run", "comparison"])
def page(request, tmp_path):
    directory = tmp_path / "it"
    if request.param == "comparison":
        return Page(render(write_comparison(directory)))
    write_run(directory)
    add_samples(directory)
    return Page(render(directory))


def test_what_a_record_holds_never_becomes_markup(page):
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "iframe", "object", "form", "a", "base"}
    assert not any(name.startswith("on") for _, keys in page.elements for name in keys)
    assert SCRIPT in page.text
    assert any(QUOTE in (image["alt"] or "") for image in page.all("img"))


def test_the_page_holds_all_that_it_shows(page):
    addresses = [
        value for _, keys in page.elements for name, value in keys.items() if name in ADDRESSES
    ]
    assert addresses
    assert all(address.startswith("data:") for address in addresses)
    assert "url(" not in "".join(page.texts)
    policy = next(m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline';")


def test_every_figure_has_words_and_follows_the_theme(page):
    assert all(image["alt"] and image["width"] and image["height"] for image in page.all("img"))
    (dark,) = page.all("source")
    assert dark["media"] == "(prefers-color-scheme: dark)"
    assert dark["srcset"] != page.all("img")[0]["src"]
    assert f"Not shown – {SCRIPT}: {QUOTE}" in page.text


def test_headings_and_tables_mean_something(page):
    assert page.all("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    names = [keys["id"] for _, keys in page.elements if "id" in keys]
    assert len(names) == len(set(names))
    assert {s["aria-labelledby"] for s in page.all("section")} == set(names)
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(head["scope"] in ("row", "col") for head in page.all("th"))


def test_the_same_directory_gives_the_same_bytes(tmp_path):
    for directory in (write_run(tmp_path / "run"), write_comparison(tmp_path / "comparison")):
        assert render(directory) == render(directory)


def test_a_sheet_of_samples_names_its_rows(tmp_path):
    add_samples(write_run(tmp_path / "run"))
    page = Page(render(tmp_path / "run"))
    assert [row["title"] for row in page.all("li") if "title" in row] == list(CLASSES)
    assert (page.all("img")[-1]["width"], page.all("img")[-1]["height"]) == ("530", "266")


def test_the_configuration_begins_with_what_was_chosen(tmp_path):
    text = Page(render(write_run(tmp_path / "run", rounds=3, alpha=0.25))).text
    chosen, default = text.index("Differing from the default"), text.index("As by default")
    assert chosen < text.index("alpha 0.25 0.1 Dirichlet concentration") < default
    assert default < text.index("learning-rate 0.05 local SGD step size")


@pytest.mark.parametrize(
    ("status", "words"), [("failed", "This run failed: <b>."), ("running", "has not ended")]
)
def test_a_broken_off_run_is_shown_as_far_as_it_got(tmp_path, status, words):
    directory = write_run(tmp_path / "run")
    break_off(directory, status, reason="<b>")
    for name in ("manifest.json", "plan.json", "rounds.jsonl", "counts.json"):
        page = Page(render(directory))
        assert words in page.text
        (directory / name).unlink()
    text = Page(render(directory)).text
    assert "The run ended before its plan was made." in text
    assert "The run ended before its first round." in text


def test_a_comparison_has_its_tables_and_says_what_failed(tmp_path):
    text = Page(render(write_comparison(tmp_path / "it"))).text
    assert "3 completed runs over 2 seeds (0, 1); arms differ in strategy" in text
    assert "3 of 4 cells finished, 1 failed; see Failed runs." in text
    assert "3 of 4 cells finished, 1 failed. Mean ± standard deviation" in text  # below the table
    assert f"Against fedavg {SCRIPT}" in text
    assert f"fedoui {SCRIPT} 1 {QUOTE} {LONG[:100]}" in text


def test_a_comparison_has_samples(tmp_path):
    directory = write_comparison(tmp_path / "it")
    assert "no longer in the cache" in Page(render(directory)).text
    add_samples(directory / "cells" / "fedoui-s0")
    page = Page(render(directory))
    assert f"fedoui {SCRIPT}, seed 0 (fedoui-s0)" in page.text
    assert (page.all("img")[-1]["width"], page.all("img")[-1]["height"]) == ("530", "266")


def test_other_directories_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"neither a run's directory .* nor a comparison's"):
        render(tmp_path)


def test_a_run_that_failed_without_a_record_of_its_last_round_claims_nothing_of_it(tmp_path):
    directory = write_run(tmp_path / "run")
    lines = [
        {key: value for key, value in line(number).items() if key != "failures"}
        for number in (1, 2)
    ]
    text = "".join(json.dumps(each) + "\n" for each in lines)
    (directory / "rounds.jsonl").write_text(text)
    break_off(directory, "failed", reason="Round 3 has no usable reply: Out of memory.")
    text = Page(render(directory)).text
    assert "In the rounds that are recorded no client failed, and every reply counted." in text


def test_a_damaged_record_is_named(tmp_path):
    directory = write_run(tmp_path / "run")
    (directory / "plan.json").write_text("[]")
    with pytest.raises(UserError, match=r"cannot be read"):
        render(directory)


def test_half_a_character_does_not_stop_the_page(tmp_path):
    directory = write_run(tmp_path / "run")
    break_off(directory, "failed", reason="half \ud800 a letter")
    assert "half ? a letter" in Page(render(directory)).text
