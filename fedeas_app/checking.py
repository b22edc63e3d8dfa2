"""What every client would refuse, found before a simulation begins.

It takes torch, and torch some 300 MB for as long as its process lives: hence a process that ends.
"""

import os
import subprocess
import sys
import tomllib

import tomli_w

from fedeas_app.errors import UserError
from fedeas_app.settings import Settings

_EVERYWHERE = ("auto", "cpu")  # devices that no machine lacks
_REFUSED = 3  # the exit status where standard output says why


def check_elsewhere(settings: Settings) -> None:
    """Refuse a device or a generator that is not there.

    Raises
    ------
    UserError
    """
    if not _may_refuse(settings):
        return
    done = subprocess.run(  # noqa: S603  # our own command line, no shell
        [sys.executable, "-m", __name__], input=tomli_w.dumps(settings.to_flat()),
        capture_output=True, encoding="utf-8", check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    if done.returncode == _REFUSED:
        raise UserError(done.stdout)
    if done.returncode:
        raise RuntimeError(done.stderr)


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
