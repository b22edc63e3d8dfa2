"""What few steps of DPM-Solver++ cost in quality, and bring in speed, against DDPM's 1,000.

Both draw from the same generator, with the same seeds, and are judged by the same classifier.
"""

import time
from pathlib import Path
from typing import Annotated

import typer

from fedeas_app.commands.configuration import load_settings
from fedeas_app.data import load_split
from fedeas_app.devices import repeatable
from fedeas_app.generators import open_generator
from fedeas_app.generators.grid import draw
from fedeas_app.generators.judging import judge

SAMPLERS = (("ddpm", 1000), ("ddim", 50), ("dpm-solver++", 20))


def main(
    config: str = "digits",
    overrides: Annotated[list[str] | None, typer.Option("--set")] = None,
    per_class: Annotated[int, typer.Option(help="Images of each class from each sampler.")] = 50,
    seed: int = 0,
) -> None:
    """Print a Markdown table: images a second, and what a classifier of real images says."""
    settings = load_settings(Path(config), overrides)
    train, test = load_split(settings, "train"), load_split(settings, "test")
    print(f"| sampler | steps | images/s | × ddpm | recognised | Fréchet |\n{'|---' * 6}|")
    slowest = 0.0
    for sampler, steps in SAMPLERS:
        own = settings.model_copy(update={"sampler": sampler, "sampler_steps": steps})
        generator = open_generator(own)
        with repeatable(own.threads):
            draw(open_generator(own.model_copy(update={"sampler_steps": 2})), 1, seed)  # warm up
            begin = time.perf_counter()
            images, labels = draw(generator, per_class, seed)
        speed = len(labels) / (time.perf_counter() - begin)
        slowest = slowest or speed
        verdict = judge(images, labels, train, test, own)
        print(
            f"| {sampler} | {steps} | {speed:.1f} | {speed / slowest:.1f} "
            f"| {verdict.recognised:.1%} | {verdict.frechet_train:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    typer.run(main)
