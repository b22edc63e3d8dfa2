"""``fedeas certs``: an authority, the SuperLink's certificate and the SuperNodes' keys."""

from pathlib import Path
from typing import Annotated

import typer

from fedeas_app.commands.console import one_sentence, out
from fedeas_app.errors import UserError

OutOption = Annotated[Path, typer.Option("--out", help="The directory that keeps all of them.")]
NameOption = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="HOST",
        help="A host name or IP address by which the SuperLink is reached; may be repeated.",
    ),
]
NodeOption = Annotated[
    list[str] | None,
    typer.Option("--node", metavar="NAME", help="Make a SuperNode's key; may be repeated."),
]
DaysOption = Annotated[
    int, typer.Option("--days", min=1, max=3650, help="How long the SuperLink's certificate holds.")
]


@one_sentence
def certs(
    directory: OutOption = Path("certs"),
    names: NameOption = None,
    nodes: NodeOption = None,
    days: DaysOption = 397,
) -> None:
    """Make what a private network needs for TLS and for SuperNode authentication.

    The authority and the nodes' keys are made once and never replaced. The SuperLink's
    certificate is made anew whenever --name is given, and renewed when nothing is.
    """
    if names or not nodes:
        _server(directory, names or [], days)
    for node in nodes or []:
        _node(directory, node)


def _server(directory: Path, names: list[str], days: int) -> None:
    from fedeas_app.certificates import issue_server, open_authority, server_names

    names = names or server_names(directory)
    if not names:
        raise UserError(
            f"There is no certificate in {directory} to renew; say with --name by which host "
            "names or IP addresses the SuperLink is reached."
        )
    authority, made = open_authority(directory)
    certificate = issue_server(directory, authority, names, days)
    _say(f"Authority: {made.path} ({_age(made.kept)}), for everyone who connects.")
    _say(
        f"SuperLink: {directory / 'server.pem'} and server.key, until "
        f"{certificate.not_valid_after_utc:%Y-%m-%d}, for {', '.join(server_names(directory))}."
    )


def _node(directory: Path, name: str) -> None:
    from fedeas_app.certificates import make_node_key

    made = make_node_key(directory, name)
    _say(f"SuperNode {name}: {made.path} ({_age(made.kept)}); register {made.path}.pub.")


def _age(kept: bool) -> str:
    return "kept" if kept else "new"


def _say(text: str) -> None:
    out.print(text, markup=False, soft_wrap=True)
