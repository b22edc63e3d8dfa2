"""The solver without a sort: bit for bit the one with it."""

import pytest
import torch
from diffusers import DPMSolverMultistepScheduler
from hypothesis import given, settings
from hypothesis import strategies as st

from fedeas_app.generators.pixel_solver import PixelSolver

CONFIG = {"beta_schedule": "squaredcos_cap_v2", "lambda_min_clipped": -5.1, "thresholding": True}


def both(**changes):
    config = CONFIG | changes
    return PixelSolver.from_config(config), DPMSolverMultistepScheduler.from_config(config)


def noise(seed, spread=1.0, shape=(3, 2, 5, 4)):
    return spread * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@given(st.integers(0, 2**32), st.sampled_from([0.1, 1.0, 3.0, 1e4]))
@settings(max_examples=20, deadline=None)
def test_a_guess_is_clipped_to_the_same_bits(seed, spread):
    ours, sorting = both()
    guess = noise(seed, spread)
    assert torch.equal(ours._threshold_sample(guess), sorting._threshold_sample(guess))


@pytest.mark.parametrize("steps", [1, 3, 20])
def test_a_walk_is_the_same_bits(steps):
    ours, sorting = both()
    one = other = noise(0)
    for scheduler in (ours, sorting):
        scheduler.set_timesteps(steps)
    assert torch.equal(ours.timesteps, sorting.timesteps)
    for number, step in enumerate(ours.timesteps, start=1):
        one = ours.step(noise(number), step, one).prev_sample
        other = sorting.step(noise(number), step, other).prev_sample
        assert torch.equal(one, other)


def test_a_larger_range_is_still_found_by_sorting():
    ours, sorting = both(sample_max_value=2.0)
    guess = noise(0, 3.0)
    assert torch.equal(ours._threshold_sample(guess), sorting._threshold_sample(guess))
    assert not torch.equal(ours._threshold_sample(guess), guess.clamp(-1, 1))


def test_it_takes_over_every_key():
    ours, sorting = both(solver_order=1, steps_offset=1)
    keys = [key for key in sorting.config if not key.startswith("_")]
    assert [ours.config[key] for key in keys] == [sorting.config[key] for key in keys]
