"""diffusers' schedulers: by the name that the key ``sampler`` gives them, and what each needs."""

from collections.abc import Mapping
from typing import Any

# λ = ln(α/σ) below which Lu et al. cut cosine schedules in their code for DPM-Solver (its
# `clipped_lambda`). Only α = 0.6 % of an image is left there, and beyond it λ falls so steeply that
# the solver's first step goes wrong and images are quietly unrecognisable. diffusers calls the
# clip critical for such schedules, but leaves it off.
_LAMBDA_MIN = -5.1


class TooManyStepsError(Exception):
    """More denoising steps than the solver can tell apart."""


def scheduler_class(sampler: str) -> Any:
    """Return diffusers' class for ``ddpm``, ``ddim`` or ``dpm-solver++``."""
    import diffusers

    kinds = {
        "ddpm": diffusers.DDPMScheduler,
        "ddim": diffusers.DDIMScheduler,
        "dpm-solver++": diffusers.DPMSolverMultistepScheduler,
    }
    return kinds[sampler]


def solver_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes DPM-Solver++ of the scheduler that a network was trained with."""
    options: dict[str, Any] = {"algorithm_type": "dpmsolver++"}
    if config.get("beta_schedule") == "squaredcos_cap_v2":
        options["lambda_min_clipped"] = _LAMBDA_MIN
    return options


def set_steps(scheduler: Any, steps: int) -> None:
    """Set a scheduler's denoising steps.

    Raises
    ------
    TooManyStepsError
        Some of them fall together.
    """
    scheduler.set_timesteps(steps)
    if len(set(scheduler.timesteps.tolist())) < steps:  # a solver would divide by 0
        raise TooManyStepsError


def describe_scheduler(scheduler: Any) -> list[Any]:
    """Return the class and the whole configuration of a scheduler, for digests.

    Keys with an underscore are diffusers' notes to itself. One of them lists a set, in another
    order in every process.
    """
    config = {key: value for key, value in scheduler.config.items() if not key.startswith("_")}
    return [type(scheduler).__name__, config]
