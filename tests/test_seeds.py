"""Seeds by name: fixed values, no collisions, no trace left behind."""

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedeas_app import seeds

PATH = st.lists(st.one_of(st.integers(), st.text("ab/:int str1", max_size=8)), max_size=4)


def test_the_seed_is_the_first_63_bits_of_sha256():
    digest = hashlib.sha256(b"str:train/int:0/int:3").hexdigest()
    expected = int(bin(int(digest, 16))[2:].zfill(256)[:63], 2)
    assert seeds.derive("train", 0, 3) == expected


@given(PATH)
@settings(max_examples=50, deadline=None)
def test_seeds_fit_in_63_bits_and_repeat(path):
    assert 0 <= seeds.derive(*path) < 2**63
    assert seeds.derive(*path) == seeds.derive(*path)


@given(PATH, PATH)
@settings(max_examples=200, deadline=None)
def test_different_paths_give_different_seeds(one, other):
    assume(list(map(repr, one)) != list(map(repr, other)))
    assert seeds.derive(*one) != seeds.derive(*other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "b"), ("a/str:b",)),
        (("a", "b"), ("ab",)),
        ((1,), ("1",)),
        ((1, 23), (12, 3)),
        (("a/", "b"), ("a", "/b")),
    ],
)
def test_paths_that_look_alike_are_told_apart(one, other):
    assert seeds.derive(*one) != seeds.derive(*other)


def test_generators_start_at_the_derived_seed():
    seed = seeds.derive("x", 1)
    expected = np.random.default_rng(seed).random(3)
    assert np.array_equal(seeds.numpy_rng("x", 1).random(3), expected)
    stream = torch.Generator().manual_seed(seed)
    assert torch.equal(
        torch.rand(3, generator=seeds.torch_rng("x", 1)), torch.rand(3, generator=stream)
    )


def test_the_global_stream_is_seeded_inside_the_block_only():
    torch.manual_seed(5)
    undisturbed = torch.rand(4)
    torch.manual_seed(5)
    with seeds.global_torch_seed("model", 0):
        first = torch.rand(4)
    assert torch.equal(torch.rand(4), undisturbed)
    with seeds.global_torch_seed("model", 0):
        assert torch.equal(torch.rand(4), first)
    with seeds.global_torch_seed("model", 1):
        assert not torch.equal(torch.rand(4), first)


def test_the_global_stream_is_put_back_after_an_error():
    state = torch.get_rng_state()
    with pytest.raises(RuntimeError), seeds.global_torch_seed("x"):
        raise RuntimeError(torch.rand(1))
    assert torch.equal(torch.get_rng_state(), state)
