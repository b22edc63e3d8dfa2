"""What a comparison's page says, checked against the records that it was made from."""

import json

import numpy as np
import pytest
from written import (
    CLASSES,
    QUOTE,
    REAL,
    SCRIPT,
    SYNTHETIC,
    add_samples,
    break_off,
    dump,
    manifest,
    write_comparison,
    write_run,
)

from fedeas_app.comparison.reading import read_comparison
from fedeas_app.figures import budget_map
from fedeas_app.report import comparison_parts
from fedeas_app.runs.reading import ClassCounts, write_counts

SPACE = "\N{NO-BREAK SPACE}"


@pytest.fixture
def directory(tmp_path):
    return write_comparison(tmp_path / "it")


def test_its_name_and_size(directory):
    comparison = read_comparison(directory)
    assert comparison_parts.title(comparison) == "2 arms compared on digits"
    assert comparison_parts.headline(comparison) == (
        "3 completed runs over 2 seeds (0, 1); arms differ in strategy; each is compared with "
        f"fedavg {SCRIPT}."
    )


def test_the_leaders_and_the_cost(directory):
    write_run(directory / "cells" / "fedoui-s1", strategy="fedoui", seed=1)
    for cell, final in (
        ("fedavg-s0", 0.5), ("fedavg-s1", 0.75), ("fedoui-s0", 0.625), ("fedoui-s1", 0.625),
    ):  # fmt: skip
        path = directory / "cells" / cell / "summary.json"
        auc = 0.75 if cell.startswith("fedoui") else 0.5
        path.write_text(json.dumps(json.loads(path.read_text()) | {"final": final, "auc": auc}))
    facts = comparison_parts.facts(read_comparison(directory))
    assert [(fact.value, fact.remark) for fact in facts] == [
        ("62.50%", f"fedavg {SCRIPT}, mean of 2 seeds"),  # a tie with fedoui: the first
        ("0.7500", f"fedoui {SCRIPT}, mean of 2 seeds"),
        ("12", "by all runs together"),
        (f"6{SPACE}min{SPACE}22{SPACE}s", "of all runs together"),  # 4 times 95.5 s
    ]


def test_an_arm_of_fewer_seeds_does_not_lead(directory):
    path = directory / "cells/fedoui-s0/summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"final": 0.99, "auc": 0.99}))
    final, auc, *_ = comparison_parts.facts(read_comparison(directory))
    assert (final.value, auc.value) == ("50.00%", "0.5625")
    remark = f"fedavg {SCRIPT}, mean of 2 seeds; without 1 arm of fewer seeds"
    assert final.remark == auc.remark == remark


def test_what_is_missing_is_said(directory):
    comparison = read_comparison(directory)
    words = "3 of 4 cells finished, 1 failed; see Failed runs."
    assert comparison_parts.trouble(comparison) == words
    ((label, seed, reason),) = comparison_parts.failed_table(comparison).rows
    assert (label, seed) == (f"fedoui {SCRIPT}", "1")
    assert reason.startswith(QUOTE)


def test_an_interrupted_run_has_not_failed(directory):
    break_off(directory / "cells/fedavg-s0", "failed", reason="interrupted")
    comparison = read_comparison(directory)
    words = "2 of 4 cells finished, 1 failed, 1 to run; see Failed runs."
    assert comparison_parts.trouble(comparison) == words
    assert len(comparison_parts.failed_table(comparison).rows) == 1


def test_nothing_has_run_yet(tmp_path):
    arms = [{"label": "a", "values": {}, "baseline": None, "cells": [{"name": "x", "seed": 0}]}]
    index = {"varied": [], "baseline": None, "target": None, "arms": arms, "failed": {}}
    (tmp_path / "comparison.json").write_text(json.dumps(index))
    comparison = read_comparison(tmp_path)
    assert comparison_parts.headline(comparison) == "0 completed runs."
    words = "0 of 1 cell finished, 1 to run. Without a completed run: a."
    assert comparison_parts.trouble(comparison) == words
    assert comparison_parts.facts(comparison) == []
    assert comparison_parts.shared_values(comparison) == {}
    assert comparison_parts.budget_maps(comparison) == []


def test_the_tables_are_those_of_the_comparison(directory):
    results, *_, paired = comparison_parts.result_tables(read_comparison(directory))
    assert [row[0] for row in results.rows] == [f"fedavg {SCRIPT}", f"fedoui {SCRIPT}"]
    assert 0 in results.texts
    assert paired.caption == f"Against fedavg {SCRIPT}"
    assert paired.notes


def test_every_further_partition_of_the_first_seed_has_a_map(directory):
    assert comparison_parts.budget_maps(read_comparison(directory)) == []
    config = directory / "cells/fedoui-s0/config.toml"
    config.write_text(config.read_text() + "alpha = 0.5\n")
    other = ClassCounts(CLASSES, np.flip(REAL, axis=0).copy(), SYNTHETIC)
    write_counts(directory / "cells/fedoui-s0", other)
    write_counts(directory / "cells/fedavg-s1", other)  # not of the first seed
    (picture,) = comparison_parts.budget_maps(read_comparison(directory))
    assert picture.title.endswith(": alpha = 0.5")


@pytest.fixture
def many_partitions(directory):
    """Nine arms that differ in their rare clients; the first has not run with seed 0."""
    index = json.loads((directory / "comparison.json").read_text())
    index["arms"] = []
    for n in range(9):
        cells = [{"name": f"arm-{n}-s{seed}", "seed": seed} for seed in (0, 1)]
        index["arms"].append({"label": f"arm {n}", "values": {}, "baseline": None, "cells": cells})
        for cell in cells[n == 0 :]:
            place = directory / "cells" / cell["name"]
            write_run(place, rare_fraction=0.5, rare_cap=10 + n, seed=cell["seed"])
            write_counts(place, ClassCounts(CLASSES, REAL + n, SYNTHETIC))
    (directory / "comparison.json").write_text(json.dumps(index))
    return read_comparison(directory)


def test_maps_are_named_by_what_differs_and_the_rest_is_counted(many_partitions):
    maps = comparison_parts.budget_maps(many_partitions)
    titles = [f"Images by client and class: rare-cap = {10 + n}" for n in range(1, 6)]
    assert [picture.title for picture in maps] == titles
    (missing,) = comparison_parts.maps_left_out(many_partitions)
    assert missing.reason == "3 more partitions of the same seed."


def test_further_maps_are_of_the_seed_of_the_first(many_partitions):
    first, *further = [
        budget_map.of_comparison(many_partitions), *comparison_parts.budget_maps(many_partitions),
    ]  # fmt: skip
    assert "for seed 1" in first.caption
    assert all("for seed 1" in picture.caption for picture in further)
    assert first.alt not in [picture.alt for picture in further]


def test_alike_images_in_other_shapes_are_other_partitions(directory):
    for cell, shape in (("fedavg-s0", (2, 2)), ("fedoui-s0", (1, 4))):
        real = np.full(shape, 3)
        counts = ClassCounts(CLASSES[: shape[1]], real, np.zeros_like(real))
        write_counts(directory / "cells" / cell, counts)
    (picture,) = comparison_parts.budget_maps(read_comparison(directory))
    assert picture.title.endswith(": fedoui-s0")  # no key tells them apart


def test_the_shared_configuration_leaves_out_what_differs(directory):
    shared = comparison_parts.shared_values(read_comparison(directory))
    assert not {"strategy", "seed", "run-name", "output-dir"} & shared.keys()
    assert shared["rounds"] == 3


def test_every_generator_s_first_samples_are_shown(directory):
    for cell, generator in (("fedavg-s1", "e"), ("fedoui-s0", "f")):
        place = directory / "cells" / cell
        add_samples(place)
        digests = manifest()["digests"] | {"generator": generator * 64}
        dump(place / "manifest.json", manifest() | {"digests": digests})
    add_samples(directory / "cells/fedavg-s0")  # of the generator without a digest
    sheets = comparison_parts.sample_sheets(read_comparison(directory))
    assert [sheet.of for sheet in sheets] == [
        f"fedavg {SCRIPT}, seed 0 (fedavg-s0)",
        f"fedavg {SCRIPT}, seed 1 (fedavg-s1)",
        f"fedoui {SCRIPT}, seed 0 (fedoui-s0)",
    ]
    dump(directory / "cells/fedoui-s0/manifest.json", manifest())
    assert len(comparison_parts.sample_sheets(read_comparison(directory))) == 2


def test_without_samples_there_is_the_reason(directory, tmp_path):
    config = directory / "cells/fedavg-s0/config.toml"
    config.write_text(config.read_text().replace('policy = "fedeas"', 'policy = "none"'))
    (sheet,) = comparison_parts.sample_sheets(read_comparison(directory))
    assert "no longer in the cache" in sheet.absent
