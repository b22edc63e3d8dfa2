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
    summary = {"status": "completed", "final": 0.6, "seconds": {"prepare": 2.5}}
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
    ],
)
def test_a_damaged_record_is_named(directory, name, content):
    raw = content if isinstance(content, bytes) else content.encode()
    (directory / name).write_bytes(raw)
    with pytest.raises(UserError, match="cannot be read"):
        read_run(directory)
