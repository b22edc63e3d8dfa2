"""What a run's page says, checked against the record that it was made from."""

import json

import pytest
from written import LONG, SCRIPT, break_off, dump, line, manifest, write_run

from fedeas_app.report import run_parts
from fedeas_app.runs.reading import read_run

SPACE = "\N{NO-BREAK SPACE}"


@pytest.fixture
def directory(tmp_path):
    return write_run(tmp_path / "run")


def values(facts):
    return {fact.name: (fact.value, fact.remark) for fact in facts}


def test_the_headline_says_what_was_run(directory):
    run = read_run(directory)
    assert run_parts.title(run) == "fedoui with policy fedeas on digits"
    assert run_parts.headline(run) == (
        "3 clients hold 28 real images of 4 classes (Dirichlet, α = 0.1) and add 15 synthetic ones "
        "(policy fedeas, β = 12); 3 rounds of fedoui, 2 local epochs each, all of the clients a "
        "round, seed 0."
    )
    assert run_parts.remarks(run) == []


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"policy": "none"}, "and train on these alone;"),
        ({"policy": "full"}, "and add 15 synthetic ones (policy full);"),
        ({"partitioner": "iid"}, "(spread evenly)"),
        ({"partitioner": "classes", "classes_per_client": 1}, "(1 class each)"),
        (
            {"dataset": "own", "image_size": 8, "image_channels": 1, "classes": "a,b"},
            "(each its own)",
        ),
        ({"fraction_train": 0.25, "local_epochs": 1}, "1 local epoch each, 25% of the clients"),
    ],
)
def test_the_headline_follows_the_settings(tmp_path, keys, words):
    assert words in run_parts.headline(read_run(write_run(tmp_path / "run", **keys)))


def test_a_dataset_on_this_machine_is_named_without_its_place(tmp_path):
    for number, (dataset, name) in enumerate([("/a/b/scans", "scans"), ("own/er", "own/er")]):
        run = read_run(write_run(tmp_path / str(number), dataset=dataset))
        assert run_parts.dataset_name(run.settings) == name


def test_a_subset_follows_the_name_of_its_dataset(tmp_path):
    run = read_run(write_run(tmp_path / "run", dataset="/a/b/scans", dataset_subset="blood"))
    assert run_parts.dataset_name(run.settings) == "scans (blood)"


def test_poor_clients_are_named(tmp_path):
    run = read_run(write_run(tmp_path / "run", noisy_fraction=0.4))
    (remark,) = run_parts.remarks(run)
    assert remark.startswith("Noisy (40% of the labels wrong): clients ")


def test_the_numbers_that_matter(directory):
    assert values(run_parts.facts(read_run(directory))) == {
        "Final accuracy": ("50.00%", "after round 3"),
        "Best accuracy": ("75.00%", "in round 2"),
        "AUC": ("0.5625", "mean height of the accuracy curve"),
        "Synthetic images": ("15", "34.9% of all images"),  # 15 / 43
        "Replies that did not count": ("2", "see Failures"),
        "Time": (
            f"1{SPACE}min{SPACE}36{SPACE}s",  # 95.5 s, rounded to even
            f"load 1.0{SPACE}s, prepare 1{SPACE}min{SPACE}30{SPACE}s, train 4.5{SPACE}s",
        ),
    }


def test_a_run_that_failed_says_so_with_what_there_is(directory):
    break_off(directory, "failed", reason="no space left")
    run = read_run(directory)
    assert run_parts.trouble(run) == (
        "This run failed: no space left. What follows is what it left: 3 of 3 rounds."
    )
    facts = values(run_parts.facts(run))
    assert facts["Latest accuracy"] == ("50.00%", "after round 3")
    assert not facts.keys() & {"Final accuracy", "AUC"}


def test_the_round_in_which_a_run_failed_is_told(directory):
    with open(directory / "rounds.jsonl", "a", encoding="utf-8") as stream:
        broken = {
            "round": 4,
            "seconds": 2.5,
            "participants": [],
            "failures": {"0": "Out of memory."},
        }
        stream.write(json.dumps(broken) + "\n")
    break_off(directory, "failed", reason="no usable reply")
    run = read_run(directory)
    assert run_parts.trouble(run).endswith("what it left: 3 of 3 rounds.")
    row = ["4", "–", "–", "–", "0", "–", "–", "1", "2.5"]
    assert list(run_parts.rounds_table(run).rows[-1]) == row
    assert list(run_parts.failures_table(run).rows[-1]) == ["Out of memory.", "1", "0", "4"]
    facts = values(run_parts.facts(run))
    assert facts["Replies that did not count"] == ("3", "see Failures")
    assert facts["Latest accuracy"] == ("50.00%", "after round 3")


def test_a_run_that_was_interrupted_did_not_fail(directory):
    break_off(directory, "failed", reason="interrupted")
    words = "This run was interrupted. What follows is what it left: 3 of 3 rounds."
    assert run_parts.trouble(read_run(directory)) == words


def test_a_run_that_was_ended_from_outside_says_so(directory):
    break_off(directory, "running")
    (directory / "rounds.jsonl").unlink()
    run = read_run(directory)
    assert run_parts.trouble(run).startswith("This run has not ended, or was ended from outside")
    assert run_parts.trouble(run).endswith("0 of 3 rounds.")
    assert not values(run_parts.facts(run)).keys() & {"Latest accuracy", "Best accuracy"}


def test_a_run_that_did_not_say_how_long_it_took_has_no_time(directory):
    dump(directory / "summary.json", {"status": "failed", "reason": "interrupted", "seconds": {}})
    assert values(run_parts.facts(read_run(directory)))["Time"] == ("–", "")


def test_a_completed_run_has_no_trouble(directory):
    assert run_parts.trouble(read_run(directory)) == ""


def test_the_plan_of_every_client(directory):
    table = run_parts.plan_table(read_run(directory))
    assert list(table.headers) == [
        "client", "kind", "real", "classes", "synthetic", "made", "imbalance", "after", "seconds",
    ]  # fmt: skip
    assert list(table.rows[1]) == [
        "1", "noisy", "10", "2 of 4", "4", "1", "0.500", "0.250", "1.5",
    ]  # fmt: skip


def test_the_plan_has_no_column_of_nothing(directory):
    (directory / "counts.json").unlink()
    content = json.loads((directory / "manifest.json").read_text())
    del content["scenario"]
    (directory / "manifest.json").write_text(json.dumps(content))
    table = run_parts.plan_table(read_run(directory))
    assert not {"kind", "classes"} & set(table.headers)
    assert {len(row) for row in table.rows} == {len(table.headers)}


def test_the_totals_of_the_plan(directory):
    assert values(run_parts.plan_facts(read_run(directory))) == {
        "Real images": ("28", ""),
        "Synthetic images": ("15", "3 made by this run"),
        "Imbalance I": ("0.500 → 0.250", "before and after synthesis; 0 is balanced"),
        "β": ("12", ""),
    }


def test_every_round_and_the_initial_model(directory):
    rows = run_parts.rounds_table(read_run(directory)).rows
    assert list(rows[0]) == ["0", "10.00%", "2.5000", "–", "–", "–", "–", "0", "0.1"]
    assert list(rows[2]) == ["2", "75.00%", "2.0000", "1.0000", "2", "2.0", "1.25", "1", "1.5"]


def test_equal_failures_are_one_row_and_long_ones_are_cut(directory):
    (row,) = run_parts.failures_table(read_run(directory)).rows
    assert row[0] == f"{SCRIPT} {LONG}"[:2000] + " …"
    assert list(row[1:]) == ["2", "1", "2, 3"]


def test_of_many_reasons_the_most_frequent_are_shown(directory):
    lines = [
        {"round": n, "accuracy": 0.1, "failures": {"0": "often", "1": f"reason {n}"}}
        for n in range(1, 61)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (directory / "rounds.jsonl").write_text(text)
    table = run_parts.failures_table(read_run(directory))
    assert len(table.rows) == 50
    assert list(table.rows[0]) == [
        "often.", "60", "0", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 48 more",
    ]  # fmt: skip
    assert table.notes == ("11 more reasons are in rounds.jsonl.",)


def test_what_was_not_used_has_no_digest(directory):
    rows = dict(run_parts.digests_table(read_run(directory)).rows)
    assert rows["partition"] == "c" * 64
    assert rows["generator"] == "–"
    assert dict(run_parts.versions_table(read_run(directory)).rows)["machine: cores"] == "2"


@pytest.mark.parametrize(
    ("where", "held_out", "fact"),
    [
        ("server", None, ("server", "its test set")),
        ("clients", 1234, ("clients", "1,234 images that they hold out")),
        ("clients", None, ("clients", "images that they hold out")),
    ],
)
def test_who_evaluated_the_model_is_a_fact(directory, where, held_out, fact):
    dump(directory / "manifest.json", manifest() | {"evaluated-on": where})
    more = {} if held_out is None else {"held-out": held_out}
    lines = [json.dumps(line(number) | more) + "\n" for number in (1, 2, 3)]
    (directory / "rounds.jsonl").write_text("".join(lines))
    assert values(run_parts.facts(read_run(directory)))["Evaluated on"] == fact
