"""Noisy and rare clients: how many, which, and what happens to their data."""

import numpy as np
import pytest
from scipy import stats

from fedeas_app.data import load_split, observed_counts, observed_labels, partition
from fedeas_app.data.scenarios import (
    describe,
    describe_in_words,
    make_rare,
    noisy_clients,
    rare_clients,
)

NOISY = {"noisy_fraction": 0.2, "noise_rate": 0.4}
RARE = {"rare_fraction": 0.2, "rare_cap": 30}


def labels_of(count, seed=0):
    return np.random.default_rng(seed).integers(0, 10, count)


@pytest.mark.parametrize(
    ("fraction", "clients", "count"),
    [(0.0, 20, 0), (0.2, 20, 4), (1.0, 7, 7), (0.01, 5, 1), (0.5, 3, 2), (1.0, 1, 1)],
)
def test_the_share_of_the_clients_is_rounded_and_never_nobody(configure, fraction, clients, count):
    for choose, key in ((noisy_clients, "noisy_fraction"), (rare_clients, "rare_fraction")):
        chosen = choose(clients, configure(**{key: fraction}))
        assert len(chosen) == count
        assert chosen == sorted(set(chosen))
        assert all(type(k) is int and 0 <= k < clients for k in chosen)


def test_which_clients_depends_on_the_seed_and_the_kind_alone(configure):
    keys = NOISY | RARE
    drawn = [
        (tuple(noisy_clients(20, s)), tuple(rare_clients(20, s)))
        for s in (configure(seed=seed, **keys) for seed in range(20))
    ]
    assert len(set(drawn)) == 20
    assert any(noisy != rare for noisy, rare in drawn)
    again = configure(seed=3, strategy="fedavg", policy="full", alpha=9.0, **keys)
    assert (tuple(noisy_clients(20, again)), tuple(rare_clients(20, again))) == drawn[3]


@pytest.mark.parametrize(("rate", "count"), [(0.0, 0), (0.4, 40), (0.255, 26), (1.0, 100)])
def test_so_many_labels_are_another_class(configure, rate, count):
    settings = configure(noisy_fraction=1.0, noise_rate=rate)
    true = labels_of(100)
    seen = observed_labels(true, 2, 5, 10, settings)
    assert (seen != true).sum() == count
    assert seen.dtype == true.dtype
    assert seen.min() >= 0
    assert seen.max() < 10


def test_every_other_class_is_as_likely(configure):
    true = np.full(9_000, 3)
    seen = observed_labels(true, 0, 1, 10, configure(noisy_fraction=1.0, noise_rate=1.0))
    counts = np.bincount(seen, minlength=10)
    assert counts[3] == 0
    assert stats.chisquare(np.delete(counts, 3)).pvalue > 1e-3


def test_noise_repeats_and_is_each_clients_own(configure):
    settings = configure(noisy_fraction=1.0)
    true = labels_of(200)
    before = true.copy()
    first, second = (observed_labels(true, k, 4, 10, settings) for k in (0, 1))
    assert np.array_equal(first, observed_labels(true, 0, 4, 10, settings))
    assert not np.array_equal(first, second)
    assert not np.array_equal(
        first, observed_labels(true, 0, 4, 10, configure(noisy_fraction=1.0, seed=1))
    )
    assert np.array_equal(true, before)


def test_the_others_and_a_single_class_keep_their_labels(configure):
    settings = configure(**NOISY)
    noisy = noisy_clients(10, settings)
    true = labels_of(50)
    for k in range(10):
        changed = not np.array_equal(observed_labels(true, k, 10, 10, settings), true)
        assert changed == (k in noisy)
    alone = observed_labels(np.zeros(5, np.int64), 0, 1, 1, configure(noisy_fraction=1.0))
    assert not alone.any()


def test_rare_clients_keep_a_random_part_in_order(configure):
    settings = configure(**RARE)
    parts = [np.random.default_rng(k).permutation(1000)[: 20 + 10 * k] for k in range(10)]
    rare = rare_clients(10, settings)
    cut = make_rare(parts, settings)
    for k, (before, after) in enumerate(zip(parts, cut, strict=True)):
        if k not in rare:
            assert after is before
            continue
        assert len(after) == min(30, len(before))
        places = [before.tolist().index(i) for i in after]
        assert places == sorted(set(places))
        assert len(before) <= 30 or places != list(range(30))


def test_the_partition_and_the_counts_are_what_clients_see(configure):
    plain, poor = configure(), configure(noisy_fraction=0.5, rare_fraction=0.25, rare_cap=12)
    train = load_split(plain, "train")
    whole, cut = (partition(train.labels, 4, settings) for settings in (plain, poor))
    (rare,) = rare_clients(4, poor)
    assert [len(a) == len(b) for a, b in zip(whole, cut, strict=True)] == [
        k != rare for k in range(4)
    ]
    assert len(cut[rare]) == 12
    counts = observed_counts(train.labels, cut, 10, poor)
    assert counts.sum(axis=1).tolist() == [len(part) for part in cut]
    for k in range(4):
        true = np.bincount(train.labels[cut[k]], minlength=10)
        assert (counts[k].tolist() != true.tolist()) == (k in noisy_clients(4, poor))


def test_the_record_names_them_and_an_ordinary_run_has_none(configure):
    assert describe(20, configure()) == {}
    assert describe_in_words(20, configure()) == []
    settings = configure(**NOISY, **RARE)
    noisy, rare = noisy_clients(10, settings), rare_clients(10, settings)
    assert describe(10, settings) == {
        "noisy-clients": noisy, "noise-rate": 0.4, "rare-clients": rare, "rare-cap": 30,
    }  # fmt: skip
    assert describe_in_words(10, settings) == [
        f"Noisy (40% of the labels wrong): clients {noisy[0]}, {noisy[1]}.",
        f"Rare (at most 30 images): clients {rare[0]}, {rare[1]}.",
    ]
