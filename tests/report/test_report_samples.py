"""The samples of a run, or why there are none."""

import base64

import pytest
from written import CLASSES, add_samples, break_off, dump, plan, write_run

from fedeas_app.report.samples import sample_sheet
from fedeas_app.runs.reading import read_run


def absent(directory):
    sheet = sample_sheet(read_run(directory))
    assert sheet.image == ""
    return sheet.absent


def test_the_sheet_is_embedded_as_it_is(tmp_path):
    directory = write_run(tmp_path / "run")
    add_samples(directory)
    sheet = sample_sheet(read_run(directory))
    kind, content = sheet.image.split(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(content) == (directory / "samples.png").read_bytes()
    assert (sheet.width, sheet.height) == (530, 266)
    assert list(sheet.classes) == list(CLASSES)


def test_without_synthesis_there_is_nothing(tmp_path):
    assert "the policy is none" in absent(write_run(tmp_path / "run", policy="none"))


def test_a_policy_may_want_nothing(tmp_path):
    directory = write_run(tmp_path / "run")
    dump(directory / "plan.json", plan() | {"synthetic": 0})
    assert "wants no synthetic image" in absent(directory)


def test_images_of_a_deployed_run_stay_where_they_are(tmp_path):
    directory = write_run(tmp_path / "run")
    (directory / "counts.json").unlink()
    assert absent(directory).startswith("Images never leave a client.")


def test_a_run_that_failed_kept_none(tmp_path):
    directory = write_run(tmp_path / "run")
    break_off(directory, "failed", reason="x")
    assert "when a run completes" in absent(directory)


def test_the_cache_may_have_lost_them(tmp_path):
    assert "no longer in the cache" in absent(write_run(tmp_path / "run"))


@pytest.mark.parametrize("content", [b"GIF89a", b"\x89PNG\r\n\x1a\n", b"<svg onload=alert(1)>"])
def test_what_is_no_picture_is_not_embedded(tmp_path, content):
    directory = write_run(tmp_path / "run")
    (directory / "samples.png").write_bytes(content)
    assert "not what the run wrote" in absent(directory)
