"""Where commands print, and how they end."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import typer
from rich.console import Console

from fedeas_app.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def one_sentence(command: Callable[P, R]) -> Callable[P, R]:
    """Turn a `UserError` into its sentence on stderr and exit status 1."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except UserError as error:
            err.print(f"Error: {error}", style="red", markup=False, soft_wrap=True)
            raise typer.Exit(1) from None

    return wrapped
