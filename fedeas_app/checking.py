"""What every client would refuse, found before a simulation begins.

It takes torch, and torch some 300 MB for as long as its process lives: hence a process that ends.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import tomli_w

from fedeas_app.errors import UserError
from fedeas_app.settings import Settings

_EVERYWHERE = ("auto", "cpu")  # devices that no machine lacks
_REFUSED = 3  # the exit status where standard output says why


@contextmanager
def check_elsewhere(settings: Settings) -> Iterator[Callable[[], None]]:
    """Look for a device and a generator that are not there, while something else goes on.

    Yields
    ------
    callable
        Waits until that is done; raises a UserError where something is missing. It need not be
        called: what is left of the check ends with the context.
    """
    if not _may_refuse(settings):
        yield lambda: None
        return
    with _started(settings) as process:
        try:
            yield partial(_refuse, process)
        finally:
            process.kill()


def _started(settings: Settings) -> "subprocess.Popen[str]":
    with tempfile.TemporaryFile() as text:  # no pipe, which would have to be fed
        text.write(tomli_w.dumps(settings.to_flat()).encode())
        text.seek(0)
        return subprocess.Popen(  # noqa: S603  # our own command line, no shell
            [sys.executable, "-m", __name__], stdin=text, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, encoding="utf-8",
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip


def _refuse(process: "subprocess.Popen[str]") -> None:
    output, errors = process.communicate()
    if process.returncode == _REFUSED:
        raise UserError(output)
    if process.returncode:
        raise RuntimeError(errors)


def _may_refuse(settings: Settings) -> bool:
    """Tell whether there is anything to look at, before seconds go into an import of torch."""
    takes_a_generator = settings.policy != "none" or settings.trains_generator
    return takes_a_generator or settings.device not in _EVERYWHERE


def check(settings: Settings) -> None:
    """Refuse likewise, in this process.

    Raises
    ------
    UserError
    """
    from fedeas_app.devices import resolve_device
    from fedeas_app.task import require_generator

    resolve_device(settings.device)
    require_generator(settings)


def _main() -> None:
    try:
        check(Settings.parse(tomllib.loads(sys.stdin.read())))
    except UserError as error:
        sys.stdout.write(str(error))
        sys.exit(_REFUSED)


if __name__ == "__main__":
    _main()
