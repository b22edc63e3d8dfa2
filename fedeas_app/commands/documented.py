"""Help for a command's arguments, which Typer 0.20 loses with click 8.5."""

from collections.abc import Callable
from typing import Any, get_args, get_type_hints

from typer.core import TyperArgument, TyperCommand
from typer.models import ArgumentInfo


class Documented(TyperCommand):
    """A command that shows the help of its arguments.

    Typer sets an argument's help before click, which knows of none, sets it to nothing.
    """

    def __init__(self, *args: Any, **keys: Any) -> None:
        super().__init__(*args, **keys)
        texts = _texts(self.callback) if self.callback is not None else {}
        for parameter in self.params:
            if isinstance(parameter, TyperArgument) and parameter.name in texts:
                parameter.help = texts[parameter.name]


def _texts(command: Callable[..., Any]) -> dict[str, str]:
    """Return the help that the signature of a command has for its arguments, by their names."""
    return {
        name: info.help
        for name, hint in get_type_hints(command, include_extras=True).items()
        for info in get_args(hint)
        if isinstance(info, ArgumentInfo) and info.help
    }
