"""Which runs share their clients' images, and what tells the partitions apart."""

from made_up_runs import make_comparison, make_run

from fedeas_app.figures import budget_map
from fedeas_app.figures.partitions import partition_names, partitions

REAL, OTHER = [[40, 0, 2], [3, 50, 0]], [[20, 20, 2], [23, 30, 0]]


def two_partitions(*, second=0.5):
    return make_comparison(
        [
            ("none", {}, [make_run(real=REAL, policy="none"), make_run(real=OTHER, seed=1)]),
            ("fedeas", {}, [make_run(real=REAL)]),
            ("fedeas", {}, [make_run(real=OTHER, alpha=second)]),
        ]
    )


def test_runs_of_one_seed_are_grouped_by_their_images():
    groups = partitions(two_partitions())
    assert [len(group) for group in groups] == [2, 1]
    assert {run.settings.seed for group in groups for run in group} == {0}


def test_a_partition_is_named_by_what_tells_it_from_the_others():
    assert partition_names(partitions(two_partitions())) == ["alpha = 0.1", "alpha = 0.5"]
    alike = partitions(two_partitions(second=0.1))
    assert partition_names(alike) == ["run", "run"]  # their directories, as no key does


def test_the_first_map_names_its_partition_where_there_are_several():
    several = budget_map.of_comparison(two_partitions())
    assert several.title == "Images by client and class: alpha = 0.1"
    single = make_comparison([("none", {}, [make_run(real=REAL)])])
    assert budget_map.of_comparison(single).title == "Images by client and class"
