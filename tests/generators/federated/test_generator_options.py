"""The settings of the generator's rounds, worked out from the run's."""

import math

import pytest

from fedeas_app.errors import UserError
from fedeas_app.generators.federated.options import (
    decisive,
    for_rounds,
    num_labels,
    require_trainable,
    step_size,
)
from fedeas_app.generators.sampling import Recipe, make_sampler
from fedeas_app.generators.schedulers import TooManyStepsError
from fedeas_app.generators.trainer import make_noise_scheduler


def test_the_strategy_of_the_classifier_is_not_that_of_the_generator(configure):
    settings = configure(
        generator="federated", strategy="scaffold", rounds=9, generator_rounds=4, weight_by="total",
        fraction_train=0.5, generator_fraction=0.25, generator_strategy="fedadam", policy="fedeas",
        generator_clip_norm=3.0,
    )  # fmt: skip
    own = for_rounds(settings)
    assert (own.strategy, own.rounds, own.fraction_train) == ("fedadam", 4, 0.25)
    assert (own.weight_by, own.policy, own.mu) == ("real", "none", 0.0)
    assert (settings.clip_norm, own.clip_norm, own.norm_bound) == ("off", 3.0, 3.0)
    assert own.seed != settings.seed
    assert own.seed == for_rounds(settings).seed


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"generator_only": True, "generator": "digits"}, "set generator to 'federated'"),
        ({"guidance_scale": 2.0}, r"guidance-scale is 2, .* generator-label-dropout above 0"),
        ({"generator_classes": "a,b"}, "generator-classes is for pretrained pipelines"),
        ({"sampler": "own"}, "sampler 'own' is for pretrained pipelines"),
        ({"sampler_steps": 2000}, "sampler-steps is 2000, .* at most 995 is allowed"),
        ({"sampler": "ddim", "sampler_steps": 1001}, "at most 1000 is allowed"),
        ({"generator_revision": "a" * 40}, "generator-revision is set, .* leave it empty"),
        (
            {"generator_max_copies": 0.0, "generator_checked": 0},
            "generator-max-copies is 0, .* set generator-checked above 0",
        ),
    ],
)
def test_what_it_cannot_do_is_refused_before_anything_starts(configure, keys, words):
    with pytest.raises(UserError, match=words):
        configure(**{"generator": "federated", "policy": "fedeas"} | keys)


@pytest.mark.parametrize(("sampler", "most"), [("ddpm", 1000), ("dpm-solver++", 995)])
def test_as_many_steps_are_allowed_as_can_be_made(configure, sampler, most):
    keys = {"generator": "federated", "policy": "fedeas", "sampler": sampler}
    assert configure(**keys, sampler_steps=most)
    with pytest.raises(UserError, match="sampler-steps"):
        configure(**keys, sampler_steps=most + 1)
    make_sampler(make_noise_scheduler().config, Recipe(sampler, most))
    with pytest.raises((TooManyStepsError, ValueError)):
        make_sampler(make_noise_scheduler().config, Recipe(sampler, most + 1))


def test_other_generators_say_themselves_how_many_steps_they_take(configure):
    assert configure(sampler_steps=2000).sampler_steps == 2000


def test_guidance_needs_dropped_labels(configure):
    keys = {"generator": "federated", "guidance_scale": 2.0, "generator_label_dropout": 0.1}
    assert configure(**keys).guidance_scale == 2.0


def test_without_synthesis_it_is_trained_only_when_it_is_all_that_is_wanted(configure):
    assert configure(generator="federated", policy="fedeas").trains_generator
    assert not configure(generator="federated", policy="none").trains_generator
    assert configure(generator="federated", policy="none", generator_only=True).trains_generator
    assert not configure(generator="digits", policy="fedeas").trains_generator


def test_what_decided_what_it_learns_is_told(configure):
    plain = decisive(configure(generator="federated"))
    assert {"generator-rounds", "max-client-weight", "alpha", "noise-rate"} <= plain.keys()
    assert not {"generator-only", "generator-prompt", "generator-checked"} & plain.keys()
    assert not {"server-momentum", "privacy", "strategy"} & plain.keys()
    stepping = decisive(configure(generator="federated", generator_strategy="fedavgm"))
    assert stepping.keys() - plain.keys() == {
        "server-learning-rate", "server-momentum", "server-decay", "server-tau"
    }  # fmt: skip
    sites = {"dataset": "own", "classes": "a, b", "image_size": 8, "image_channels": 1,
             "train_samples": 0, "test_samples": 0}  # fmt: skip
    assert "alpha" not in decisive(configure(generator="federated", **sites))


def test_steps_fall_along_half_a_cosine(configure):
    settings = configure(generator="federated", generator_rounds=4, generator_learning_rate=0.8)
    sizes = [step_size(settings, server_round) for server_round in (1, 2, 3, 4)]
    half = math.sqrt(0.5)
    assert sizes == pytest.approx([0.8, 0.4 * (1 + half), 0.4, 0.4 * (1 - half)])


def test_without_a_step_size_it_is_the_presets(configure):
    assert step_size(configure(generator="federated"), 1) == 2e-3


def test_the_null_label_comes_after_the_classes(configure):
    assert num_labels(configure(), 10) == 10
    assert num_labels(configure(generator_label_dropout=0.1), 10) == 11


def test_images_that_the_network_cannot_halve_are_refused(configure):
    require_trainable(configure(), (28, 28, 1))
    with pytest.raises(UserError, match=r"multiple of 8.*generator-unshuffle"):
        require_trainable(configure(generator_unshuffle=4), (28, 28, 1))
