"""What clients would refuse, as another process finds it."""

import pytest

from fedeas_app.checking import check, check_elsewhere
from fedeas_app.errors import UserError


@pytest.mark.parametrize(
    "wrong", [{"device": "cuda:7"}, {"policy": "fedeas", "generator": "/nowhere/at/all"}]
)
def test_another_process_refuses_in_the_same_words(configure, wrong):
    settings = configure(**wrong)
    with pytest.raises(UserError) as here:
        check(settings)
    with pytest.raises(UserError) as there:
        check_elsewhere(settings)
    assert str(there.value) == str(here.value) != ""


def test_what_is_there_is_not_refused(configure):
    check_elsewhere(configure(policy="fedeas"))


@pytest.fixture
def broken_python(monkeypatch, tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho ValueError: odd >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(broken))


@pytest.mark.usefixtures("broken_python")
def test_a_mistake_of_ours_is_no_mistake_of_the_users(configure):
    with pytest.raises(RuntimeError, match="ValueError: odd"):
        check_elsewhere(configure(policy="fedeas"))


@pytest.mark.usefixtures("broken_python")
@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_where_nothing_can_be_missing_no_process_is_started(configure, device):
    settings = configure(policy="none", device=device)
    check(settings)
    check_elsewhere(settings)


@pytest.mark.usefixtures("broken_python")
@pytest.mark.parametrize(
    "keys",
    [
        {"policy": "none", "device": "cuda"},
        {"policy": "full"},
        {"policy": "none", "generator": "federated", "generator_only": True},
    ],
)
def test_whatever_can_be_missing_is_looked_for(configure, keys):
    with pytest.raises(RuntimeError, match="odd"):
        check_elsewhere(configure(**keys))
