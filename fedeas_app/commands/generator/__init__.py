"""``fedeas generator``: make the generators that clients use, and look at what they make."""

import typer

from fedeas_app.commands.generator.evaluate import evaluate
from fedeas_app.commands.generator.sample import sample
from fedeas_app.commands.generator.train import train

app = typer.Typer(
    help="Make the generators that clients use, and judge them.", no_args_is_help=True
)
app.command("train")(train)
app.command("sample")(sample)
app.command("evaluate")(evaluate)
