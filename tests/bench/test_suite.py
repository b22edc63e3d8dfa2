"""One benchmark's failure costs no other's table, and is not forgotten."""

import pytest
import suite

GOOD = "print('| a table |')"
BAD = "import sys; print('| half a table |', flush=True); sys.exit('no such file')"


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "HERE", tmp_path)
    monkeypatch.setattr(suite, "SCRIPTS", ("one.py", "two.py"))
    monkeypatch.setattr(suite, "LARGE", ("two.py --large",))
    return tmp_path


def test_all_are_run_and_the_failed_ones_are_named_at_the_end(scripts, capfd):
    (scripts / "one.py").write_text(BAD)
    (scripts / "two.py").write_text(GOOD)
    with pytest.raises(SystemExit, match=r"^failed: one\.py$"):
        suite.main(quick=True)
    told = capfd.readouterr().out
    assert "| half a table |" in told
    assert told.index("one.py failed with status 1") < told.index("| a table |")
    assert "two.py took" in told


def test_nothing_is_raised_where_all_went_well(scripts):
    for script in suite.SCRIPTS:
        (scripts / script).write_text(GOOD)
    suite.main()


def test_each_gets_the_options_that_it_has():
    assert list(suite.lines("", quick=True)) == [
        ["start.py", "--quick"],
        ["rounds.py", "--quick"],
        ["aggregation.py", "--quick"],
        ["oui.py", "--quick"],
        ["compression.py", "--quick"],
    ]
    large = list(suite.lines("there", quick=False))
    assert large[:4] == [
        ["start.py"],
        ["rounds.py", "--dataset", "there"],
        ["flower_style.py", "--dataset", "there"],
        ["aggregation.py"],
    ]
    assert large[6][:5] == ["rounds.py", "--dataset", "there", "--clients", "100"]
    assert large[7][:3] == ["aggregation.py", "--replies", "10000"]
