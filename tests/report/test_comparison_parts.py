"""What a comparison's page says, checked against the records that it was made from."""

import json

import numpy as np
import pytest
from written import CLASSES, QUOTE, REAL, SCRIPT, SYNTHETIC, write_comparison

from fedeas_app.comparison.reading import read_comparison
from fedeas_app.report import comparison_parts
from fedeas_app.runs.reading import ClassCounts, write_counts


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
    for cell, final in (("fedavg-s0", 0.5), ("fedavg-s1", 0.75), ("fedoui-s0", 0.625)):
        path = directory / "cells" / cell / "summary.json"
        auc = 0.75 if cell == "fedoui-s0" else 0.5
        path.write_text(json.dumps(json.loads(path.read_text()) | {"final": final, "auc": auc}))
    facts = comparison_parts.facts(read_comparison(directory))
    assert [(fact.value, fact.remark) for fact in facts] == [
        ("62.50%", f"fedavg {SCRIPT}, mean of 2 seeds"),  # a tie with fedoui: the first
        ("0.7500", f"fedoui {SCRIPT}, mean of 1 seed"),
        ("9", "by all runs together"),
        ("0.1 h", "of all runs together"),  # 3 times 95.5 s
    ]


def test_what_is_missing_is_said(directory):
    comparison = read_comparison(directory)
    assert comparison_parts.trouble(comparison) == "1 run failed, see Failed runs."
    ((label, seed, reason),) = comparison_parts.failed_table(comparison).rows
    assert (label, seed) == (f"fedoui {SCRIPT}", "1")
    assert reason.startswith(QUOTE)


def test_nothing_has_run_yet(tmp_path):
    arms = [{"label": "a", "values": {}, "baseline": None, "cells": [{"name": "x", "seed": 0}]}]
    index = {"varied": [], "baseline": None, "target": None, "arms": arms, "failed": {}}
    (tmp_path / "comparison.json").write_text(json.dumps(index))
    comparison = read_comparison(tmp_path)
    assert comparison_parts.headline(comparison) == "0 completed runs."
    assert comparison_parts.trouble(comparison) == "Without a completed run: a."
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
    assert picture.title.endswith(": 3 clients, dirichlet, α = 0.5")


def test_the_shared_configuration_leaves_out_what_differs(directory):
    shared = comparison_parts.shared_values(read_comparison(directory))
    assert not {"strategy", "seed", "run-name", "output-dir"} & shared.keys()
    assert shared["rounds"] == 3
