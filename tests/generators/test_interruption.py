"""Ctrl-C is noticed, once, where it can be."""

import signal
from threading import Thread

import pytest

from fedeas_app.generators.interruption import noticing_ctrl_c


@pytest.fixture(autouse=True)
def _handler_of_python():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press():
    signal.raise_signal(signal.SIGINT)


def test_the_first_one_is_noticed_and_the_second_one_obeyed():
    with noticing_ctrl_c() as noticed:
        assert not noticed.is_set()
        press()
        assert noticed.is_set()
        with pytest.raises(KeyboardInterrupt):
            press()


@pytest.mark.parametrize("presses", [0, 1])
def test_afterwards_all_is_as_before(presses):
    with noticing_ctrl_c():
        for _ in range(presses):
            press()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_ignores_it_goes_on_ignoring_it():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with noticing_ctrl_c() as noticed:
        press()
    assert not noticed.is_set()


def test_in_another_thread_it_is_left_to_the_first():
    handlers = []

    def work():
        with noticing_ctrl_c() as noticed:
            handlers.append((signal.getsignal(signal.SIGINT), noticed.is_set()))

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [(signal.default_int_handler, False)]


def test_in_a_process_with_a_parent_the_second_one_is_the_first_again(monkeypatch):
    monkeypatch.setattr("fedeas_app.generators.interruption.parent_process", object)
    with noticing_ctrl_c() as noticed:
        press()
        press()
    press()  # it may be late
    assert noticed.is_set()
