"""The scheduler of a pretrained pipeline: the sampler that was asked for, or its own."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from fedeas_app.errors import UserError
from fedeas_app.generators.sampling import DEFAULT_STEPS
from fedeas_app.generators.schedulers import (
    TooManyStepsError,
    scheduler_class,
    set_steps,
    solver_options,
)

OWN = "own"


def make_scheduler(own: Any, sampler: str, name: str) -> Any:
    """Return a new scheduler for a pipeline.

    Parameters
    ----------
    own : diffusers scheduler
        The one that the pipeline came with.
    sampler : {"ddpm", "ddim", "dpm-solver++", "own"}
    name : str
        Of the generator, for messages.

    Raises
    ------
    UserError
        The pipeline was not trained for such a sampler: one for flow matching only has its own.
    """
    if sampler == OWN:
        return type(own).from_config(own.config)
    wanted = scheduler_class(sampler)
    if wanted not in own.compatibles or _is_flow(own.config):
        raise UserError(
            f"sampler is {sampler!r}, but the generator {name} only works with its own "
            f'({type(own).__name__}); set sampler = "{OWN}".'
        )
    return wanted.from_config(own.config, **_options(own.config, sampler))


def require_steps(scheduler: Any, steps: int, sampler: str, name: str) -> None:
    """Refuse more steps than the pipeline was trained with, or than the sampler tells apart.

    Raises
    ------
    UserError
    """
    trained = scheduler.config.get("num_train_timesteps", steps)
    if steps > trained:
        raise UserError(
            f"sampler-steps is {steps}, but the generator {name} was trained with {trained} steps; "
            "use at most that."
        )
    if sampler == OWN:  # some can only set their steps with what the pipeline tells them
        return
    try:
        set_steps(scheduler, steps)
    except TooManyStepsError as error:
        raise UserError(
            f"sampler-steps is {steps}, which is more than {sampler} can tell apart; use fewer, or "
            f"0 for {DEFAULT_STEPS[sampler]}."
        ) from error


class Watch:
    """Looks at every prediction that a scheduler is given.

    Pipelines turn NaN into black pixels without a word. That a value was not finite is looked up at
    the end of a batch, because a look makes a GPU wait.

    Parameters
    ----------
    scheduler : diffusers scheduler
        Its method ``step`` is replaced.
    """

    def __init__(self, scheduler: Any) -> None:
        self._finite: list[torch.Tensor] = []
        scheduler.step = self._watched(scheduler.step)

    def _watched(self, step: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(step)  # pipelines read its signature to learn what it takes
        def watched(model_output: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            self._finite.append(torch.isfinite(model_output).all())
            return step(model_output, *args, **kwargs)

        return watched

    def first_bad_step(self) -> int:
        """Return the first step, from 1, that was given a value not finite, or 0; and forget."""
        finite, self._finite = self._finite, []
        bad = (~torch.stack(finite)).nonzero().flatten().tolist() if finite else []
        return bad[0] + 1 if bad else 0


def _is_flow(config: Any) -> bool:
    return config.get("prediction_type") == "flow_prediction" or bool(config.get("use_flow_sigmas"))


def _options(config: Any, sampler: str) -> dict[str, Any]:
    """Return what must not be left to the new scheduler's defaults."""
    if sampler == "dpm-solver++":
        return solver_options(config)
    # They clip to [-1, 1] by themselves, where others do not: latents are larger than that.
    return {"clip_sample": config.get("clip_sample", False)}
