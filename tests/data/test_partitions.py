import multiprocessing
import re
import subprocess
import sys
import warnings
from pathlib import Path

import datasets
import numpy as np
import pytest
from flwr_datasets.partitioner import DirichletPartitioner, IidPartitioner, PathologicalPartitioner
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fedeas_app.data import counts, partition, partition_digest, partitioners
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings

LABELS = np.random.default_rng(0).integers(0, 10, 600)


def flower(labels, num_clients, settings):
    """What Flower Datasets gives by itself, as its documentation says to use it."""
    rows = datasets.Dataset.from_dict({"y": labels, "row": np.arange(len(labels))})
    if settings.partitioner == "iid":
        rows = rows.shuffle(seed=settings.seed)
        partitioner = IidPartitioner(num_clients)
    elif settings.partitioner == "classes":
        partitioner = PathologicalPartitioner(
            num_clients, "y", settings.classes_per_client, seed=settings.seed
        )
    else:
        partitioner = DirichletPartitioner(
            num_clients,
            "y",
            settings.alpha,
            min_partition_size=settings.min_partition_size,
            seed=settings.seed,
        )
    partitioner.dataset = rows
    return [partitioner.load_partition(client)["row"][:] for client in range(num_clients)]


@hypothesis_settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**63 - 1),
    kind=st.sampled_from(["dirichlet", "iid", "classes"]),
    num_clients=st.integers(1, 12),
    num_classes=st.integers(2, 6),
    size=st.integers(60, 200),
    data=st.data(),
)
def test_partitions_are_flowers_disjoint_and_whole(
    tmp_path_factory, seed, kind, num_clients, num_classes, size, data
):
    labels = np.random.default_rng(seed).integers(0, num_classes, size)
    keys = {
        "cache-dir": str(tmp_path_factory.mktemp("cache")),
        "partitioner": kind,
        "alpha": data.draw(st.sampled_from([1.0, 10.0, 100.0])),
        "classes-per-client": data.draw(st.integers(1, num_classes)),
        "min-partition-size": 1,
        "seed": seed,
    }
    settings = Settings.parse(keys)
    try:
        parts = partition(labels, num_clients, settings)
    except UserError:
        return  # too skewed or too small; the sentences have tests of their own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [part.tolist() for part in parts] == flower(labels, num_clients, settings)
    everything = np.concatenate(parts)
    assert len(np.unique(everything)) == len(everything)
    given_out = np.isin(labels, labels[everything])
    assert sorted(everything) == np.flatnonzero(given_out).tolist()
    assert given_out.all() or kind == "classes"
    again = partition(labels, num_clients, settings)
    assert partition_digest(again) == partition_digest(parts)
    np.testing.assert_array_equal(
        counts(labels, parts, num_classes).sum(axis=0),
        np.bincount(labels[everything], minlength=num_classes),
    )


@pytest.mark.parametrize("kind", ["dirichlet", "iid", "classes"])
def test_seeds_give_partitions_of_their_own(settings_of, kind):
    digests = {
        partition_digest(partition(LABELS, 5, settings_of(partitioner=kind, alpha=1.0, seed=seed)))
        for seed in (0, 1, 2, 2**63 - 1)
    }
    assert len(digests) == 4


def test_sorted_datasets_give_no_skew_with_iid(settings_of):
    labels = np.repeat(np.arange(10), 100)
    found = counts(labels, partition(labels, 5, settings_of(partitioner="iid")), 10)
    assert found.shape == (5, 10)
    assert found.min() > 0


def test_counts_by_hand():
    parts = [np.array([0, 1, 4]), np.array([], dtype=np.int64), np.array([2])]
    found = counts(np.array([0, 2, 1, 0, 2]), parts, 4)
    assert found.tolist() == [[1, 0, 2, 0], [0, 0, 0, 0], [0, 1, 0, 0]]
    assert found.dtype == np.int64
    assert counts(np.array([0]), [], 4).shape == (0, 4)


def test_the_digest_sees_order_and_borders():
    parts = ([[0, 1], [2]], [[1, 0], [2]], [[0], [1, 2]], [[0, 1, 2]], [[0, 1], [2], []])
    digests = {partition_digest([np.array(part, np.int64) for part in each]) for each in parts}
    assert len(digests) == len(parts)


def test_the_second_time_comes_from_the_cache(settings_of, monkeypatch):
    first = partition(LABELS, 5, settings_of(alpha=1.0))
    monkeypatch.setattr(partitioners, "compute", lambda *_: pytest.fail("computed again"))
    second = partition(LABELS, 5, settings_of(alpha=1.0))
    assert partition_digest(first) == partition_digest(second)


@pytest.mark.parametrize(
    "change", [{"alpha": 2.0}, {"seed": 1}, {"min_partition_size": 5}, {"partitioner": "iid"}]
)
def test_every_parameter_has_a_cache_entry_of_its_own(settings_of, change):
    partition(LABELS, 5, settings_of(alpha=1.0))
    settings = settings_of(**({"alpha": 1.0} | change))
    partition(LABELS, 5, settings)
    partition(LABELS, 4, settings)
    partition(LABELS[:-1], 4, settings)
    entries = (settings.cache_path / "partitions").glob("[!.]*")
    assert len(list(entries)) == 4


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", "other"])
def test_damaged_caches_are_rebuilt(settings_of, content):
    settings = settings_of(alpha=1.0)
    first = partition_digest(partition(LABELS, 5, settings))
    (file,) = settings.cache_path.rglob("indices.npy")
    if content == "other":
        np.save(file, np.arange(10_000))
    else:
        file.write_bytes(content)
    assert partition_digest(partition(LABELS, 5, settings)) == first


SECOND = """
import sys
import numpy as np
from fedeas_app.data import partition, partition_digest
from fedeas_app.settings import Settings
labels = np.random.default_rng(0).integers(0, 10, 600)
print(partition_digest(partition(labels, 5, Settings.parse({"cache-dir": sys.argv[1]}))))
print(*{"datasets", "flwr_datasets", "pyarrow", "torch", "flwr"} & set(sys.modules))
"""


def test_the_second_process_imports_no_library(settings_of):
    settings = settings_of()
    digest = partition_digest(partition(LABELS, 5, settings))
    done = subprocess.run(
        [sys.executable, "-c", SECOND, str(settings.cache_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == [digest, ""]


def _digest(settings):
    return partition_digest(partition(LABELS, 5, settings))


def test_many_processes_make_one_copy(settings_of):
    settings = settings_of(alpha=1.0)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert len(set(pool.map(_digest, [settings] * 8, chunksize=1))) == 1
    assert len(list((settings.cache_path / "partitions").glob("[!.]*"))) == 1


def says(labels, num_clients, settings, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # one sentence, and not a single warning beside it
        with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
            partition(labels, num_clients, settings)


@pytest.mark.parametrize(
    ("num_clients", "keys", "message"),
    [
        (0, {}, "num-clients is 0; at least one client is needed."),
        (601, {}, "601 clients cannot share 600 samples; take at most 600 clients."),
        (61, {},
         "min-partition-size is 10, but 600 samples give 61 clients at most 9 each; lower it or "
         "take fewer clients."),
        (5, {"partitioner": "classes", "classes_per_client": 11},
         "classes-per-client is 11, but the training set has 10 classes; at most 10 is allowed."),
        (60, {"partitioner": "classes", "classes_per_client": 10, "min_partition_size": 0},
         "60 clients with classes-per-client 10 share a class that has fewer samples than clients; "
         "take fewer of either."),
    ],
)  # fmt: skip
def test_impossible_wishes_are_said(settings_of, num_clients, keys, message):
    labels = np.concatenate([LABELS[LABELS < 9][:595], [9] * 5, LABELS])[:600]
    says(labels, num_clients, settings_of(**keys), message)


def test_small_clients_of_few_classes_are_said(settings_of):
    labels = np.array([0] * 95 + [1] * 5)
    settings = settings_of(partitioner="classes", classes_per_client=1, seed=1)
    says(labels, 4, settings,
         "The smallest of 4 clients with classes-per-client 1 gets 1 samples; set "
         "min-partition-size to at most 1, or take fewer clients.")  # fmt: skip


def test_unused_classes_are_logged_not_warned(settings_of, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts = partition(LABELS, 2, settings_of(partitioner="classes", classes_per_client=2))
    used = set(LABELS[np.concatenate(parts)])
    missing = ", ".join(str(label) for label in range(10) if label not in used)
    assert caplog.messages == [
        f"No client was given the classes {missing}, whose samples are unused; "
        "more clients or a larger classes-per-client make that rarer."
    ]


@pytest.mark.parametrize("alpha", [0.01, 0.05])
def test_too_skewed_wishes_name_values_that_work(settings_of, alpha):
    keys = {"alpha": alpha, "min_partition_size": 40}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserError) as caught:
            partition(LABELS, 8, settings_of(**keys))
    message = str(caught.value)
    assert message.startswith(
        f"With alpha {alpha:g}, 11 tries gave no Dirichlet partition in which each of 8 clients "
        "has min-partition-size 40 samples; "
    )
    options = dict(re.findall(r"set (alpha|min-partition-size) to ([\d.]+?)(?= or|\.$)", message))
    assert "alpha" in options
    for key, value in options.items():
        change = {"alpha": float(value)} if key == "alpha" else {"min_partition_size": int(value)}
        assert len(partition(LABELS, 8, settings_of(**(keys | change)))) == 8


def test_where_one_change_is_too_little_two_are_named(settings_of):
    keys = {"alpha": 1e-4, "min_partition_size": 20}
    with pytest.raises(UserError) as caught:
        partition(LABELS, 30, settings_of(**keys))
    pattern = r"; set alpha to ([\d.]+) and min-partition-size to (\d+)\.$"
    alpha, least = re.search(pattern, str(caught.value)).groups()
    settings = settings_of(alpha=float(alpha), min_partition_size=int(least))
    assert len(partition(LABELS, 30, settings)) == 30


def test_where_nothing_near_works_fewer_clients_are_advised(settings_of):
    labels = np.arange(60)  # one sample of each class: each goes to the last client
    says(labels, 60, settings_of(alpha=1.0, min_partition_size=1),
         "With alpha 1, 11 tries gave no Dirichlet partition in which each of 60 clients has "
         "min-partition-size 1 samples; take fewer clients.")  # fmt: skip


@pytest.mark.parametrize("alpha", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("num_clients", [3, 7])
def test_shares_are_foreseen_as_the_partitioner_draws_them(alpha, num_clients):
    """The advice rests on repeating the partitioner's draws."""
    best = partitioners._smallest_share(LABELS, num_clients, alpha, seed=3)

    def possible(least):
        keys = {"alpha": alpha, "min-partition-size": least, "seed": 3}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                flower(LABELS, num_clients, Settings.parse(keys))
        except ValueError:
            return False
        return True

    assert possible(best)
    assert not possible(best + 1)


def test_extreme_alphas_end(settings_of):
    assert min(map(len, partition(LABELS, 5, settings_of(alpha=1e300)))) > 100
    with pytest.raises(UserError, match=r"^With alpha 1e-300, .* or set alpha to [\d.]+\.$"):
        partition(LABELS, 5, settings_of(alpha=1e-300, min_partition_size=100))


def test_a_changed_partition_is_noticed_and_drawn_anew(settings_of):
    settings = settings_of(alpha=1.0)
    labels = np.arange(200, dtype=np.int64) % 4
    parts = partition(labels, 3, settings)
    (file,) = settings.cache_path.glob("partitions/*/indices.npy")
    np.save(file, np.roll(np.load(file), 1))
    again = partition(labels, 3, settings)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
