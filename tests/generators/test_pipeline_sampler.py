"""The scheduler in a pretrained pipeline."""

import inspect

import diffusers
import pytest
import torch

from fedeas_app.errors import UserError
from fedeas_app.generators.pipeline_sampler import Watch, make_scheduler, require_steps

SAMPLERS = {
    "ddpm": diffusers.DDPMScheduler,
    "ddim": diffusers.DDIMScheduler,
    "dpm-solver++": diffusers.DPMSolverMultistepScheduler,
}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_sampler_takes_over_what_the_network_was_trained_with(sampler):
    own = diffusers.PNDMScheduler(
        beta_schedule="scaled_linear", beta_start=0.00085, prediction_type="v_prediction"
    )
    made = make_scheduler(own, sampler, "'x'")
    assert type(made) is SAMPLERS[sampler]
    assert made.config.beta_start == 0.00085
    assert made.config.prediction_type == "v_prediction"
    assert torch.equal(made.alphas_cumprod, own.alphas_cumprod)


@pytest.mark.parametrize("sampler", ["ddpm", "ddim"])
def test_latents_are_not_clipped_unless_they_were(sampler):
    """The defaults of both would clip to [-1, 1] what an Euler sampler does not."""
    assert not make_scheduler(diffusers.EulerDiscreteScheduler(), sampler, "'x'").config.clip_sample
    clipping = diffusers.DDIMScheduler(clip_sample=True)
    assert make_scheduler(clipping, sampler, "'x'").config.clip_sample


def test_a_cosine_schedule_is_cut_for_dpm_solver():
    own = diffusers.DDPMScheduler(beta_schedule="squaredcos_cap_v2")
    assert make_scheduler(own, "dpm-solver++", "'x'").config.lambda_min_clipped == -5.1


def test_its_own_is_the_same_anew():
    own = diffusers.EulerDiscreteScheduler(beta_start=0.003)
    made = make_scheduler(own, "own", "'x'")
    assert made is not own
    assert type(made) is type(own)
    assert made.config == own.config


@pytest.mark.parametrize(
    "own",
    [
        diffusers.FlowMatchEulerDiscreteScheduler(),
        diffusers.CMStochasticIterativeScheduler(),
        diffusers.UniPCMultistepScheduler(
            prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
        ),
    ],
)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_other_kinds_of_networks_keep_their_own(own, sampler):
    with pytest.raises(UserError, match=rf"only works with its own \({type(own).__name__}\); set"):
        make_scheduler(own, sampler, "'x'")
    assert type(make_scheduler(own, "own", "'x'")) is type(own)


def test_too_many_steps_are_refused():
    scheduler = make_scheduler(diffusers.DDIMScheduler(num_train_timesteps=100), "ddim", "'x'")
    require_steps(scheduler, 100, "ddim", "'x'")
    with pytest.raises(UserError, match="sampler-steps is 101, but the generator 'x' was trained"):
        require_steps(scheduler, 101, "ddim", "'x'")


def test_steps_that_fall_together_are_refused():
    own = diffusers.DDPMScheduler(beta_schedule="squaredcos_cap_v2")
    scheduler = make_scheduler(own, "dpm-solver++", "'x'")
    with pytest.raises(UserError, match=r"more than dpm-solver\+\+ can tell apart"):
        require_steps(scheduler, 1000, "dpm-solver++", "'x'")


def test_a_flow_scheduler_is_not_asked_for_its_steps():
    own = diffusers.FlowMatchEulerDiscreteScheduler(
        use_dynamic_shifting=True
    )  # needs an image size
    require_steps(own, 50, "own", "'x'")


def test_the_first_bad_step_is_found_and_forgotten():
    scheduler = diffusers.DDIMScheduler()
    signature = inspect.signature(scheduler.step)
    watch = Watch(scheduler)
    assert inspect.signature(scheduler.step) == signature
    scheduler.set_timesteps(4)
    sample = torch.zeros(1, 1, 2, 2)
    for step, value in zip(
        scheduler.timesteps, (0.0, float("inf"), 0.0, float("nan")), strict=True
    ):
        scheduler.step(sample + value, step, sample)
    assert watch.first_bad_step() == 2
    assert watch.first_bad_step() == 0
