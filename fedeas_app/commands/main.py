"""The ``fedeas`` command."""

import sys
from importlib.metadata import version as installed
from io import TextIOWrapper
from typing import Annotated

import typer

from fedeas_app import __version__
from fedeas_app.commands import cache, certs, compare, doctor, generator, keys, plan, report, run

app = typer.Typer(
    name="fedeas",
    help="Federated learning when clients lack classes: FedEAS synthesis and FedOUI weighting.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _say_versions(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedeas {__version__}, flwr {installed('flwr')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_say_versions,
            is_eager=True,
            help="Show the versions of fedeas and flwr.",
        ),
    ] = False,
) -> None:
    """Options of ``fedeas`` itself."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal may know no β
            stream.reconfigure(errors="replace")


app.command("run")(run.run)
app.command("compare")(compare.compare)
app.command("plan")(plan.plan)
app.command("report")(report.report)
app.command("doctor")(doctor.doctor)
app.command("keys")(keys.keys)
app.command("certs")(certs.certs)
app.add_typer(generator.app, name="generator")
app.add_typer(cache.app, name="cache")
