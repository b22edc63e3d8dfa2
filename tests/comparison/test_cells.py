"""The cells of a grid: each once, with a name of its own, or a sentence before anything starts."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_cells import PARSE

from fedeas_app.budget import POLICIES
from fedeas_app.comparison import agreement, cells
from fedeas_app.comparison.cells import PLACES, essence, make_cells, matters
from fedeas_app.comparison.grid import Grid
from fedeas_app.errors import UserError
from fedeas_app.settings import Settings


def made(directory, *blocks, **shared):
    return make_cells(Grid(blocks=blocks, shared=shared), {}, PARSE, directory)


def test_a_cell_is_an_ordinary_run_with_a_name_of_its_own(tmp_path):
    (cell,) = made(tmp_path, {"strategy": ["fedavg"], "seed": [3]})
    assert cell.name.startswith("fedavg-fedeas-s3-")
    assert len(cell.name.rpartition("-")[2]) == 8
    assert cell.directory == tmp_path / "cells" / cell.name
    assert cell.settings.run_name == cell.name
    assert cell.seed == 3


def test_beta_is_one_cell_where_it_cannot_matter(tmp_path):
    found = made(tmp_path, {"policy": ["none", "full", "fedeas"], "beta": [2, 6]})
    assert [(c.settings.policy, c.settings.beta) for c in found] == [
        ("none", 12.0), ("full", 12.0), ("fedeas", 2.0), ("fedeas", 6.0),
    ]  # fmt: skip


def test_blocks_may_overlap(tmp_path):
    found = made(tmp_path, {"seed": [0, 1]}, {"seed": [1, 2]})
    assert [cell.seed for cell in found] == [0, 1, 2]


def test_a_number_is_the_same_however_it_is_written(tmp_path):
    assert len(made(tmp_path, {"beta": [6, 6.0]})) == 1


@pytest.mark.parametrize(
    ("strategy", "key", "value"),
    [
        ("fedprox", "proximal-mu", 0.01), ("fedavg", "proximal-mu", 0.0),
        ("fedavgm", "server-learning-rate", 1.0), ("fedadam", "server-learning-rate", 0.01),
    ],
)  # fmt: skip
def test_what_auto_comes_to_is_the_same_cell(tmp_path, strategy, key, value):
    (cell,) = made(tmp_path, {"strategy": [strategy], key: ["auto", value]})
    assert cell.has_settings(PARSE({"strategy": strategy, key: value}))
    assert len(made(tmp_path, {"strategy": [strategy], key: [value, 0.5]})) == 2


def test_a_cell_of_default_values_is_called_by_them_alone(tmp_path):
    (cell,) = made(tmp_path, {"strategy": ["fedprox"], "seed": [3]}, **{"num-clients": "auto"})
    digest = hashlib.sha256(b'{"seed": 3, "strategy": "fedprox"}').hexdigest()
    assert cell.name == f"fedprox-fedeas-s3-{digest[:8]}"


def test_data_that_no_simulation_has_are_refused(tmp_path):
    own = {"dataset": "own", "classes": "a,b", "image-size": 8, "image-channels": 1}
    with pytest.raises(UserError, match="dataset is 'own', but a comparison runs in simulation"):
        made(tmp_path, {}, **own)


def test_places_do_not_change_a_name(tmp_path):
    here, there = (made(tmp_path / name, {}, **{"cache-dir": f"/{name}"}) for name in "ab")
    assert here[0].name == there[0].name
    assert here[0].settings.output_dir != there[0].settings.output_dir
    assert here[0].has_settings(there[0].settings)


def test_a_record_of_automatic_beta_is_recognised(tmp_path):
    (cell,) = made(tmp_path, {"beta": ["auto"]})
    assert cell.has_settings(PARSE({"beta": 14.0}))
    assert not cell.has_settings(PARSE({"beta": 14.0, "seed": 1}))


@given(st.sampled_from(POLICIES), st.floats(0, 100), st.integers(0, 9))
def test_names_are_equal_exactly_when_what_matters_is(policy, beta, seed):
    values = {"policy": policy, "beta": beta, "seed": seed}
    other = {"policy": "fedeas", "beta": 6.0, "seed": 0}
    one, two = (made(Path("/x"), {}, **each)[0] for each in (values, other))
    assert (one.name == two.name) == (essence(one.settings) == essence(two.settings))


def test_every_problem_is_named_with_its_cells_before_anything_starts(tmp_path):
    block = {"strategy": ["fedavg", "fedprox"], "proximal-mu": [0.0], "aplha": [1], "beta": [-1]}
    with pytest.raises(UserError) as caught:
        made(tmp_path, block)
    assert str(caught.value).count("did you mean 'alpha'") == 1
    assert "beta is -1" in str(caught.value)


def test_a_contradiction_names_its_cell(tmp_path):
    block = {"strategy": ["fedavg", "fedprox"], "proximal-mu": [0.0, 0.1]}
    with pytest.raises(UserError) as caught:
        made(tmp_path, block)
    assert "plain FedAvg" in str(caught.value)
    assert str(caught.value).endswith("(in strategy=fedprox, proximal-mu=0.0).")


def test_a_value_with_a_line_break_breaks_no_sentence(tmp_path):
    with pytest.raises(UserError) as caught:
        made(tmp_path, {"policy": ["none", "\n"], "seed": [0]})
    assert str(caught.value).endswith("(in policy='\\n', seed=0).")


def test_a_cell_without_rounds_is_refused(tmp_path):
    with pytest.raises(UserError, match="generator-only is true, but a comparison"):
        made(tmp_path, {"generator": ["federated"], "generator-only": [True]})


def test_where_runs_are_is_not_varied(tmp_path):
    with pytest.raises(UserError, match="cache-dir, run-name cannot be varied"):
        made(tmp_path, {"run-name": ["a"], "cache-dir": ["/a", "/b"]})
    with pytest.raises(UserError, match="run-name cannot be set"):
        made(tmp_path, {}, **{"run-name": "a"})


def test_only_keys_that_exist_are_spoken_of():
    keys = set(Settings.parse({}).to_flat())
    assert set(PLACES) < keys
    assert set(cells._MATTERS) < keys
    assert {key for group in agreement._DEPENDS_ON.values() for key in group} < keys


# Keys that can change the numbers of every run; a new key belongs here or has a condition.
ALWAYS = {
    "dataset", "dataset-revision", "dataset-subset", "image-column", "label-column", "classes",
    "image-size", "image-channels", "train-samples", "test-samples", "test-dataset", "num-clients",
    "partitioner", "noisy-fraction", "rare-fraction", "seed", "rounds", "fraction-train",
    "local-epochs", "batch-size", "learning-rate", "momentum", "weight-decay", "augment", "model",
    "strategy", "proximal-mu", "max-client-weight", "clip-norm", "privacy", "policy", "device",
    "threads", "min-replies", "compression", "generator-only",
}  # fmt: skip


def test_of_every_key_it_is_known_when_it_matters():
    assert set(Settings.parse({}).to_flat()) == ALWAYS | set(PLACES) | set(cells._MATTERS)
    assert not ALWAYS & set(cells._MATTERS)


@pytest.mark.parametrize(
    ("key", "values", "answer"),
    [
        ("trim-fraction", {"strategy": "fedavg"}, False),
        ("trim-fraction", {"strategy": "fedtrimmedavg"}, True),
        ("malicious-clients", {"strategy": "multikrum"}, True),
        ("krum-selected", {"strategy": "krum"}, False),
        ("noise-multiplier", {}, False),
        ("noise-multiplier", {"strategy": "fedavg", "privacy": "central", "clip-norm": 1}, True),
        ("alpha", {"partitioner": "iid"}, False),
        ("alpha", {}, True),
        ("noise-rate", {"noisy-fraction": 0.2}, True),
        ("rare-cap", {}, False),
        ("oui-gamma", {"strategy": "fedoui-fedalign"}, True),
        ("oui-gamma", {"strategy": "fedavg"}, False),
        ("server-tau", {"strategy": "fedavgm"}, False),
        ("server-momentum", {"strategy": "fedavgm"}, True),
        ("sampler", {"policy": "none"}, False),
        ("sampler", {"policy": "full"}, True),
        ("beta", {"policy": "uniform"}, True),
        ("rounds", {}, True),
        ("oui-layers", {"strategy": "fedavg"}, False),
        ("oui-probe-size", {"strategy": "fedoui"}, True),
        ("weight-by", {"policy": "none"}, False),
        ("weight-by", {}, True),
        ("pool-dataset", {}, False),
        ("pool-dataset", {"generator": "pool"}, True),
        ("pool-dataset", {"generator": "pool", "policy": "none"}, False),
        ("sampler-steps", {"generator": "pool"}, False),
        ("generation-precision", {"generator": "pool"}, False),
        ("min-partition-size", {"partitioner": "iid"}, False),
        ("min-partition-size", {"partitioner": "classes"}, True),
    ],
)
def test_what_a_key_matters_to(key, values, answer):
    assert matters(key, PARSE(values)) is answer
