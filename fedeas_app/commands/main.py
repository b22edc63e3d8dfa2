"""The ``fedeas`` command."""

import typer

from fedeas_app.commands import cache, certs, compare, generator, keys, plan, report, run

app = typer.Typer(
    name="fedeas",
    help="Federated learning when clients lack classes: FedEAS synthesis and FedOUI weighting.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("run")(run.run)
app.command("compare")(compare.compare)
app.command("plan")(plan.plan)
app.command("report")(report.report)
app.command("keys")(keys.keys)
app.command("certs")(certs.certs)
app.add_typer(generator.app, name="generator")
app.add_typer(cache.app, name="cache")
