"""Findings, and examinations that break down."""

from fedeas_app.diagnosis.findings import Section, count, examined, ok, problem, to_dict, warning
from fedeas_app.errors import UserError


def raising(error):
    def examine():
        raise error

    return examine


def test_a_users_mistake_is_the_advice_of_a_problem():
    found = examined("device", "cuda", raising(UserError("There is none; use cpu.")))
    assert found == problem("device", "cuda", "There is none; use cpu.")


def test_whatever_breaks_down_is_a_problem_too():
    found = examined("device", "cuda", raising(OSError("no such library\nmore")))
    assert found.status == "problem"
    assert found.advice == "Looking at it failed (OSError: no such library)."


def test_json_counts_what_is_not_ok():
    sections = [
        Section("a", [ok("x", "1"), warning("y", "2", "Wait.")]),
        Section("b", [problem("z", "3", "Stop."), problem("w", "4", "Stop.")]),
    ]
    assert [count(sections, status) for status in ("ok", "warning", "problem")] == [1, 1, 2]
    said = to_dict(sections)
    assert (said["problems"], said["warnings"]) == (2, 1)
    expected = [{"subject": "x", "status": "ok", "found": "1", "advice": ""}]
    assert said["sections"]["a"][:1] == expected
