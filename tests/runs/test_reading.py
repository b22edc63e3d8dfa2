"""A run read back from its directory."""

import json

import numpy as np
import pytest
import tomli_w

from fedeas_app.errors import UserError
from fedeas_app.runs.reading import ClassCounts, is_run, read_run, write_counts


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "config.toml").write_text(tomli_w.dumps({"strategy": "fedavg", "rounds": 3}))
    results = {"final": 0.6, "best": 0.7, "auc": 0.5}
    summary = {"status": "completed", **results, "seconds": {"prepare": 2.5}}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    lines = [{"round": n, "accuracy": a} for n, a in enumerate([0.1, 0.3, 0.7, 0.6])]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "rounds.jsonl").write_text(text + '{"round": 4, "accu')
    return tmp_path


def test_a_run_is_read_as_it_was_written(directory):
    run = read_run(directory)
    assert run.completed
    assert run.settings.strategy == "fedavg"
    assert run.accuracies == [0.3, 0.7, 0.6]  # round 0 is the initial model, round 4 half written
    assert run.seconds("prepare") == 2.5
    assert run.seconds("train") == 0.0
    assert run.counts is None
    assert run.synthetic == 0


@pytest.mark.parametrize(("target", "reached"), [(0.3, 1), (0.31, 2), (0.7, 2), (0.71, None)])
def test_the_first_round_that_reaches_a_target(directory, target, reached):
    assert read_run(directory).rounds_to(target) == reached


def test_counts_come_back(directory):
    real, synthetic = np.array([[3, 0], [1, 2]]), np.array([[0, 1], [1, 0]])
    write_counts(directory, ClassCounts(("cat", "dog"), real, synthetic))
    counts = read_run(directory).counts
    assert counts is not None
    assert counts.classes == ("cat", "dog")
    np.testing.assert_array_equal(counts.real, real)
    np.testing.assert_array_equal(counts.synthetic, synthetic)


def test_another_directory_is_refused(tmp_path):
    assert not is_run(tmp_path)
    with pytest.raises(UserError, match="is not a run's directory"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("summary.json", "{"),
        ("plan.json", "[]"),
        ("rounds.jsonl", "half\n"),
        ("counts.json", '{"classes": ["a"], "real": [[1, 2]], "synthetic": [[1, 2]]}'),
        ("counts.json", '{"classes": ["a"]}'),
        ("manifest.json", b"\xff\xfe"),
        ("config.toml", "a-key-of-another-version = 1"),
        ("config.toml", "["),
        ("summary.json", '{"status": 3}'),
        ("summary.json", '{"status": "completed", "final": 0.6, "best": 0.7}'),
        ("summary.json", '{"status": "completed", "final": 0.6, "best": 7, "auc": 0.5}'),
        ("summary.json", '{"status": "running", "seconds": {"load": "long"}}'),
        ("manifest.json", '{"digests": []}'),
        ("manifest.json", '{"classes": "ab"}'),
        ("plan.json", '{"synthetic": -1}'),
        ("plan.json", '{"synthetic": true}'),
        ("plan.json", '{"clients": [{}]}'),
        ("plan.json", '{"clients": {}}'),
        ("plan.json", '{"clients": [3]}'),
        ("counts.json", '{"classes": ["a"], "real": [[-1]], "synthetic": [[1]]}'),
        ("counts.json", f'{{"classes": ["a"], "real": [[{10**30}]], "synthetic": [[1]]}}'),
        ("rounds.jsonl", "{}\n"),
        ("rounds.jsonl", "[]\n"),
        ("rounds.jsonl", '{"round": 1}\n'),
        ("rounds.jsonl", '{"round": 1, "accuracy": "x"}\n'),
        ("rounds.jsonl", '{"round": 1, "accuracy": NaN}\n'),
        ("rounds.jsonl", '{"round": 1, "accuracy": 0.5}\n{"round": 3, "accuracy": 0.5}\n'),
        ("rounds.jsonl", '{"round": 1, "accuracy": 0.5, "drift": "x"}\n'),
        ("rounds.jsonl", '{"round": 1, "failures": {}}\n{"round": 2, "accuracy": 0.5}\n'),
        ("rounds.jsonl", '{"round": 1, "accuracy": 0.5, "participants": [{}]}\n'),
        ("rounds.jsonl", '{"round": 1, "accuracy": 0.5, "failures": {"one": "lost"}}\n'),
    ],
)
def test_a_damaged_record_is_named(directory, name, content):
    raw = content if isinstance(content, bytes) else content.encode()
    (directory / name).write_bytes(raw)
    with pytest.raises(UserError, match=rf"cannot be read: {name}: ") as caught:
        read_run(directory)
    assert len(str(caught.value).splitlines()) == 1


def test_a_completed_run_has_all_its_rounds(directory):
    (directory / "rounds.jsonl").write_text('{"round": 1, "accuracy": 0.1}\n')
    with pytest.raises(UserError, match=r"rounds.jsonl: .* only 1 of 3 rounds"):
        read_run(directory)
    (directory / "rounds.jsonl").unlink()
    with pytest.raises(UserError, match="only 0 of 3 rounds"):
        read_run(directory)


def test_a_run_that_was_broken_off_is_read_as_far_as_it_got(directory):
    (directory / "summary.json").write_text('{"status": "failed", "reason": "x", "seconds": {}}')
    (directory / "rounds.jsonl").write_text('{"round": 0, "accuracy": 0.1, "loss": NaN}\n')
    assert not read_run(directory).trained
    (directory / "rounds.jsonl").unlink()
    assert not read_run(directory).rounds


def test_a_run_that_failed_in_a_round_is_read_with_that_round(directory):
    (directory / "summary.json").write_text('{"status": "failed", "reason": "x", "seconds": {}}')
    text = '{"round": 1, "accuracy": 0.1}\n{"round": 2, "failures": {"0": "lost"}}\n'
    (directory / "rounds.jsonl").write_text(text)
    run = read_run(directory)
    assert [line["round"] for line in run.rounds] == [1, 2]
    assert [line["round"] for line in run.trained] == [1]
    assert run.accuracies == [0.1]


@pytest.mark.parametrize(("reason", "interrupted"), [("interrupted", True), ("no space", False)])
def test_an_interrupted_run_is_told_from_a_failed_one(directory, reason, interrupted):
    summary = {"status": "failed", "reason": reason, "seconds": {}}
    (directory / "summary.json").write_text(json.dumps(summary))
    assert read_run(directory).interrupted is interrupted
