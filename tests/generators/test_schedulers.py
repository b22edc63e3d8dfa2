"""diffusers' schedulers as we ask for them."""

import json

import diffusers
import numpy as np
import pytest

from fedeas_app.generators.schedulers import (
    TooManyStepsError,
    describe_scheduler,
    scheduler_class,
    set_steps,
    solver_options,
)

COSINE = {"beta_schedule": "squaredcos_cap_v2"}


@pytest.mark.parametrize(
    ("sampler", "kind"),
    [
        ("ddpm", diffusers.DDPMScheduler),
        ("ddim", diffusers.DDIMScheduler),
        ("dpm-solver++", diffusers.DPMSolverMultistepScheduler),
    ],
)
def test_a_sampler_is_a_class_of_diffusers(sampler, kind):
    assert scheduler_class(sampler) is kind


def test_the_solver_leaves_out_the_end_of_a_cosine_schedule():
    """ᾱ of Nichol and Dhariwal, arXiv 2102.09672, equation 17, with β_t of at most 0.999."""
    f = np.cos((np.arange(1001) / 1000 + 0.008) / 1.008 * np.pi / 2) ** 2
    kept = np.cumprod(1 - np.minimum(1 - f[1:] / f[:-1], 0.999))
    half_log_snr = np.log(np.sqrt(kept) / np.sqrt(1 - kept))
    last = int(np.flatnonzero(half_log_snr >= -5.1)[-1])
    solver = scheduler_class("dpm-solver++").from_config(COSINE, **solver_options(COSINE))
    set_steps(solver, 20)
    assert int(solver.timesteps[0]) == last < 999
    assert np.sqrt(kept[last]) < 0.007  # what is left of the image there


def test_other_schedules_are_solved_to_their_end():
    config = {"beta_schedule": "linear"}
    solver = scheduler_class("dpm-solver++").from_config(config, **solver_options(config))
    set_steps(solver, 20)
    assert int(solver.timesteps[0]) == 999


def test_steps_that_fall_together_are_told():
    solver = scheduler_class("dpm-solver++").from_config(COSINE, **solver_options(COSINE))
    set_steps(solver, 100)
    with pytest.raises(TooManyStepsError):
        set_steps(solver, 1000)


@pytest.mark.parametrize("sampler", ["ddpm", "ddim", "dpm-solver++"])
def test_a_description_is_whole_and_the_same_in_every_process(sampler):
    scheduler = scheduler_class(sampler).from_config(COSINE)
    name, config = json.loads(json.dumps(describe_scheduler(scheduler)))
    assert name == scheduler_class(sampler).__name__
    # diffusers lists a set under "_use_default_values": its order changes from process to process.
    assert "_use_default_values" in scheduler.config
    assert set(config) == {key for key in scheduler.config if not key.startswith("_")}
    assert config["beta_schedule"] == "squaredcos_cap_v2"
    assert config["num_train_timesteps"] == 1000
