"""What a diagnosis says of its user is left out where others are to read it."""

import getpass
import re
from pathlib import Path
from typing import Any

_END = r"(?![\w-]|\.\w)"  # of a name: a full stop may end the sentence


def redacted(value: Any, home: str | None = None, user: str | None = None) -> Any:
    """Return what JSON can hold with ``~`` for the home directory, and USER for the user in paths.

    Parameters
    ----------
    value : Any
        Texts in lists and mappings.
    home, user : str, optional
        This process's, if left out.
    """
    home = str(Path.home()) if home is None else home
    user = _user() if user is None else user
    if isinstance(value, str):
        return _text(value, home, user)
    if isinstance(value, dict):
        return {key: redacted(item, home, user) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item, home, user) for item in value]
    return value


def _text(text: str, home: str, user: str) -> str:
    if home.strip("/"):
        text = re.sub(rf"{re.escape(home.rstrip('/'))}{_END}", "~", text)
    return re.sub(rf"(?<=/){re.escape(user)}{_END}", "USER", text) if user else text


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's number without a name
        return ""
