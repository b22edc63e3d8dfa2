"""A user's mistake is one sentence, in Flower's log as well."""

import io
import logging
import pickle
from pathlib import Path

import pytest

from fedeas_app.errors import QuietUserError, UserError, first_line


def logged(error):
    """Log an exception in the way Flower logs what an app raises."""
    stream = io.StringIO()
    logger = logging.Logger("test")
    logger.addHandler(logging.StreamHandler(stream))
    logger.error("ServerApp raised an exception", exc_info=error)
    return stream.getvalue()


def raised(kind):
    try:
        try:
            Path("/nonexistent/file").read_bytes()
        except OSError as error:
            raise UserError("The file cannot be read.") from error
    except UserError as error:
        try:
            raise kind(str(error)) from None
        except kind as final:
            return final


def test_a_quiet_error_is_logged_without_a_traceback():
    text = logged(raised(QuietUserError))
    assert "The file cannot be read." in text
    assert "Traceback" not in text
    assert "File " not in text
    assert "FileNotFoundError" not in text


def test_other_errors_keep_theirs():
    assert "Traceback" in logged(raised(UserError))


def test_a_quiet_error_ignores_tracebacks_that_are_set():
    other = raised(UserError).__traceback__
    assert other is not None
    assert QuietUserError("x").with_traceback(other).__traceback__ is None


@pytest.mark.parametrize("kind", [UserError, QuietUserError])
def test_errors_travel_between_processes(kind):
    copy = pickle.loads(pickle.dumps(raised(kind)))  # noqa: S301  # our own bytes
    assert type(copy) is kind
    assert str(copy) == "The file cannot be read."
    assert isinstance(copy, UserError)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("a\nb"), "a"),
        (ValueError("\n  a reason.  \nb"), "a reason"),
        (ValueError(""), "ValueError"),
        (ValueError(), "ValueError"),
        (OSError(" \n"), "OSError"),
    ],
)
def test_an_error_is_quoted_by_its_first_line(error, line):
    assert first_line(error) == line


def test_several_mistakes_are_said_one_after_the_other():
    error = UserError("The file is missing.", "The disk is full.")
    assert str(error) == "The file is missing. The disk is full."
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301  # our own bytes
