"""What a page says of a generator that the clients trained, checked against its record."""

import json

import pytest
from strict_page import Page
from written import LONG, QUOTE, SCRIPT, add_generator, break_off, dump, write_run

from fedeas_app.errors import UserError
from fedeas_app.report import generator_parts
from fedeas_app.report.page import render
from fedeas_app.runs.reading import read_run

DRAWN_QUICKLY = pytest.mark.usefixtures("quick_figures")
KEYS = {"generator": "federated", "generator_rounds": 3, "generator_epochs": 2}


@pytest.fixture
def make(tmp_path):
    def made(pictures="generator/samples", **keys):
        directory = write_run(tmp_path / "run", **KEYS | keys)
        add_generator(directory, pictures)
        return directory

    return made


def values(directory):
    return {f.name: (f.value, f.remark) for f in generator_parts.facts(read_run(directory))}


def test_the_numbers_that_matter(make):
    assert values(make()) == {
        "Rounds": ("3 of 3", "2 local epochs each"),
        "Clients a round": ("all", "0 to 3 took part"),
        "Averaged by": ("fedavg", ""),
        "Loss": ("0.2500", "0.5000 in round 1"),
        "Copies": ("1 of 16", "images held against clients' own"),
        "Replies that did not count": ("3", ""),
        "Time": ("1\N{NO-BREAK SPACE}min\N{NO-BREAK SPACE}0\N{NO-BREAK SPACE}s", "of its rounds"),
    }


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"generator_embeddings": "movers"}, "embeddings over those that moved them"),
        ({"generator_mu": 0.25, "generator_transfer": "float16"}, "μ = 0.25, sent as float16"),
        ({"generator_clip_norm": "median"}, "clip-norm median"),
    ],
)
def test_what_differs_from_plain_averaging_is_said(make, keys, words):
    assert words in values(make(**keys))["Averaged by"][1]


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "nobody has looked"), ({"checked": 0, "copies": 0}, "nobody looked for them")],
)
def test_where_nobody_looked_for_copies_none_are_claimed_absent(make, content, words):
    directory = make()
    (directory / "generator-copies.json").unlink()
    if content is not None:
        dump(directory / "generator-copies.json", content)
    value, remark = values(directory)["Copies"]
    assert value == "–"
    assert words in remark


def test_every_round_its_failures_and_what_clients_found(make):
    rounds, failures, copies = generator_parts.tables(read_run(make()))
    assert [list(row) for row in rounds.rows] == [
        ["1", "0.5000", "2", "0.75", "1", "20.0"],
        ["2", "–", "0", "–", "2", "20.0"],
        ["3", "0.2500", "3", "0.50", "0", "20.0"],
    ]
    assert list(failures.rows[0]) == ["Out of memory.", "2", "0, 1", "2"]
    assert [list(row) for row in copies.rows] == [["0", "8", "1"], ["2", "8", "0"]]
    assert copies.notes == [f"Without an answer: 1. {QUOTE}."]


def test_the_first_the_middle_and_the_last_picture(make):
    shown = generator_parts.sheets(read_run(make()))
    assert [sheet.of for sheet in shown] == ["Round 1", "Round 2", "Round 4"]
    assert all((sheet.width, sheet.height) == (82, 42) for sheet in shown)
    assert len({sheet.image for sheet in shown}) == 3


def test_pictures_of_a_training_that_was_broken_off(make):
    directory = make("generator.training/samples")
    for number in (2, 3, 4):
        (directory / f"generator.training/samples/round-{number:05}.png").unlink()
    assert [sheet.of for sheet in generator_parts.sheets(read_run(directory))] == ["Round 1"]


@DRAWN_QUICKLY
def test_it_has_a_part_of_its_own(make):
    page = Page(render(make()))
    assert "The generator that the clients trained" in page.text
    assert "Rounds of the generator (3)" in page.text
    assert len([i for i in page.all("img") if i["width"] == "82"]) == 3
    assert not {tag for tag, _ in page.elements} & {"script"}
    assert f"{SCRIPT} {LONG[:100]}" in page.text


@DRAWN_QUICKLY
def test_other_runs_have_none(tmp_path):
    text = Page(render(write_run(tmp_path / "run"))).text
    assert "The generator that the clients trained" not in text


@DRAWN_QUICKLY
def test_before_its_first_round_there_is_a_sentence(tmp_path):
    directory = write_run(tmp_path / "run", **KEYS)
    (directory / "plan.json").unlink()
    break_off(directory, "failed", reason="Nobody came.")
    text = Page(render(directory)).text
    assert "The run ended before the first of its rounds." in text
    assert "what it left: 0 of 3 rounds of its generator." in text


@DRAWN_QUICKLY
def test_a_run_that_trained_nothing_else_speaks_of_nothing_else(make):
    directory = make(generator_only=True)
    for name in ("plan.json", "rounds.jsonl", "counts.json"):
        (directory / name).unlink()
    dump(directory / "summary.json", {"status": "completed", "seconds": {"generator": 60.0}})
    text = Page(render(directory)).text
    assert "A generator trained by clients on digits" in text
    assert "3 clients share the data (Dirichlet, α = 0.1) and train a generator" in text
    assert "ended before" not in text
    assert "Synthetic images" not in text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("generator.jsonl", '{"round": 2, "seconds": 1}\n'),
        ("generator.jsonl", '{"round": true, "seconds": 1}\n'),
        ("generator.jsonl", '{"round": 1, "seconds": "long"}\n'),
        ("generator.jsonl", '{"round": 1, "seconds": 1, "loss": "x"}\n'),
        ("generator.jsonl", '{"round": 1, "seconds": 1, "weights": {"a": 1}}\n'),
        ("generator.jsonl", '{"round": 1, "seconds": 1, "weights": {"0": 2}}\n'),
        ("generator.jsonl", '{"round": 1, "seconds": 1, "failures": []}\n'),
        ("generator.jsonl", "[]\n"),
        ("generator-copies.json", json.dumps({"checked": 1})),
        ("generator-copies.json", json.dumps({"checked": 1, "copies": 1, "clients": [{}]})),
    ],
)
def test_a_damaged_record_is_named(make, name, content):
    directory = make()
    (directory / name).write_text(content)
    with pytest.raises(UserError, match=rf"cannot be read: {name}: "):
        read_run(directory)
