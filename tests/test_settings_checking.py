"""What clients would refuse, as another process finds it."""

import signal

import pytest

from fedeas_app import checking
from fedeas_app.checking import check, check_elsewhere
from fedeas_app.errors import UserError


def check_there(settings):
    with check_elsewhere(settings) as refuse:
        refuse()


@pytest.mark.parametrize(
    "wrong", [{"device": "cuda:7"}, {"policy": "fedeas", "generator": "/nowhere/at/all"}]
)
def test_another_process_refuses_in_the_same_words(configure, wrong):
    settings = configure(**wrong)
    with pytest.raises(UserError) as here:
        check(settings)
    with pytest.raises(UserError) as there:
        check_there(settings)
    assert str(there.value) == str(here.value) != ""


def test_what_is_there_is_not_refused(configure):
    check_there(configure(policy="fedeas"))


def test_a_check_that_nobody_waits_for_ends_with_the_context(configure, monkeypatch):
    started = []
    start = checking._started

    def keep(settings):
        started.append(start(settings))
        return started[0]

    monkeypatch.setattr(checking, "_started", keep)
    with pytest.raises(KeyboardInterrupt), check_elsewhere(configure(policy="fedeas")):
        raise KeyboardInterrupt
    assert started[0].returncode == -signal.SIGKILL


@pytest.fixture
def broken_python(monkeypatch, tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho ValueError: odd >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(broken))


@pytest.mark.usefixtures("broken_python")
def test_a_mistake_of_ours_is_no_mistake_of_the_users(configure):
    with pytest.raises(RuntimeError, match="ValueError: odd"):
        check_there(configure(policy="fedeas"))


@pytest.mark.usefixtures("broken_python")
@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_where_nothing_can_be_missing_no_process_is_started(configure, device):
    settings = configure(policy="none", device=device)
    check(settings)
    check_there(settings)


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
        check_there(configure(**keys))
