"""What ends a command from outside."""

import os
import signal

import pytest

from fedeas_app.commands.launcher import interruptible


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_signal_that_ends_a_command_is_an_interrupt(number):
    before = signal.getsignal(number)

    def killed():
        with interruptible():
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt):
        killed()
    assert signal.getsignal(number) == before
