"""A growing record, of which every line is read once."""

import json

import pytest

from fedeas_app.runs.following import Following, GrowingLines


def append(path, text):
    with open(path, "a", encoding="utf-8") as stream:
        stream.write(text)


def test_a_line_is_handed_out_once_it_is_complete_and_never_again(tmp_path):
    path = tmp_path / "lines.jsonl"
    lines = GrowingLines(path)
    assert lines.take() == []
    append(path, '{"n": 1}\n{"n": 2}\n{"n"')
    assert lines.take() == [{"n": 1}, {"n": 2}]
    assert lines.take() == []
    append(path, ": 3}\n")
    assert lines.take() == [{"n": 3}]


def test_only_what_is_new_is_read(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"n": 1}\n')
    lines = GrowingLines(path)
    lines.take()
    path.write_text('[broken]\n{"n": 2}\n')  # as long as before, and a line more
    assert lines.take() == [{"n": 2}]


def test_a_file_that_was_written_anew_is_read_again(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"n": 1}\n{"n": 2}\n')
    lines = GrowingLines(path)
    lines.take()
    path.write_text('{"n": 1}\n')
    assert lines.take() == [{"n": 1}]


def test_the_training_of_its_generator_is_followed(tmp_path):
    run = Following(tmp_path)
    run.look()
    assert (run.generator_rounds, run.generator_loss) == (0, None)
    append(tmp_path / "generator.jsonl", '{"round": 1, "loss": 0.5}\n')
    run.look()
    assert (run.generator_rounds, run.generator_loss) == (1, 0.5)
    append(tmp_path / "generator.jsonl", '{"round": 2, "loss": null}\n')
    run.look()
    assert (run.generator_rounds, run.generator_loss) == (2, None)


def test_a_run_is_followed(tmp_path):
    run = Following(tmp_path / "r")
    run.look()
    assert (run.ready, run.images, run.rounds, run.accuracy) == (0, 0, 0, None)
    (tmp_path / "r").mkdir()
    for partition, synthetic in ((0, 3), (1, 4), (0, 3)):  # the first came back later
        ready = {"partition-id": partition, "synthetic": synthetic}
        append(tmp_path / "r/preparation.jsonl", json.dumps(ready) + "\n")
    append(tmp_path / "r/rounds.jsonl", '{"round": 0, "accuracy": 0.1}\n')
    run.look()
    assert (run.ready, run.images, run.rounds, run.accuracy) == (2, 7, 0, 0.1)
    append(tmp_path / "r/rounds.jsonl", '{"round": 1, "accuracy": 0.5}\n')
    append(tmp_path / "r/rounds.jsonl", '{"round": 2, "failures": {"0": "lost"}}\n')
    run.look()
    assert (run.rounds, run.accuracy) == (1, 0.5)


@pytest.mark.parametrize(
    "line",
    [
        "nonsense", "[1]", "null", '{"round": "x", "accuracy": 0.5}', '{"partition-id": []}',
        '{"round": 1, "accuracy": NaN}', '{"round": 1, "accuracy": "0.5"}', "[" * 100_000,
        '{"round": 1, "loss": []}', b"\xff\xfe".decode("latin-1"),
    ],
)  # fmt: skip
def test_a_damaged_line_is_left_out(tmp_path, line):
    run = Following(tmp_path)
    for name in ("preparation", "rounds"):
        append(tmp_path / f"{name}.jsonl", line + "\n")
    append(tmp_path / "rounds.jsonl", '{"round": 2, "accuracy": 0.25}\n')
    run.look()
    assert (run.ready, run.images, run.rounds, run.accuracy) == (0, 0, 2, 0.25)
