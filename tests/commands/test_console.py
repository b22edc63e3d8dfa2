"""How commands end."""

import pytest
import typer

from fedeas_app.commands.console import one_sentence
from fedeas_app.errors import UserError


def test_a_user_error_is_printed_and_ends_with_one(capsys):
    @one_sentence
    def command():
        raise UserError("allowed: [red], not 'x' " + "long " * 60)

    with pytest.raises(typer.Exit) as caught:
        command()
    assert caught.value.exit_code == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("Error: allowed: [red], not 'x' ")
    assert printed.err.count("\n") == 1


def test_other_errors_and_results_pass_through():
    @one_sentence
    def command(value):
        """Say what it does."""
        return 1 / value

    assert command(2) == 0.5
    assert command.__doc__ == "Say what it does."
    with pytest.raises(ZeroDivisionError):
        command(0)
