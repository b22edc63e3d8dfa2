"""What a SuperNode is told, and what it lets a run decide."""

import sys
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from fedeas_app import node
from fedeas_app.client import Client
from fedeas_app.errors import PublicError, UserError
from fedeas_app.node import NodeSettings, in_simulation
from fedeas_app.settings import Settings

REAL_IN_SIMULATION = in_simulation
OWN = {"dataset": "own", "classes": "a,b", "image-size": 8, "image-channels": 1}


@pytest.fixture
def _deployed(monkeypatch):
    monkeypatch.setattr(node, "in_simulation", lambda: False)


def told(**keys):
    return NodeSettings.parse(
        {"partition-id": 0} | {key.replace("_", "-"): value for key, value in keys.items()}
    )


def run(**keys):
    return Settings.parse({key.replace("_", "-"): value for key, value in keys.items()})


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"data_pth": "/x"}, "Unknown key 'data-pth' (did you mean 'data-path'?)."),
        ({"zzz": 1}, "Unknown key 'zzz'; it takes partition-id, num-partitions, data-path, "),
        ({"data_path": 3}, "data-path is 3; a text is allowed."),
        ({"partition_id": "first"}, "partition-id is 'first'; a whole number ≥ 0 is allowed."),
        ({"partition_id": True}, "partition-id is True; a whole number ≥ 0 is allowed."),
        ({"num_partitions": -1}, "num-partitions is -1; a whole number ≥ 0 is allowed."),
        ({"device": "gpu"}, "device is 'gpu'; 'auto', 'cpu', 'cuda', 'cuda:' with a number, or"),
        ({"data_path": "scans"}, "data-path is 'scans'; it must be absolute or begin with ~/"),
        ({"cache_dir": "./c"}, "cache-dir is 'c'; it must be absolute or begin with ~/"),
        ({"generator_path": "~x/g"}, "generator-path is '~x/g'; it must be absolute or begin"),
    ],
)
def test_mistakes_are_told_in_one_sentence(keys, words):
    with pytest.raises(UserError) as caught:
        told(**keys)
    assert str(caught.value).startswith("In this SuperNode's --node-config: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_node_without_a_partition_is_told_so():
    with pytest.raises(UserError, match='has no partition; start it with --node-config "partition'):
        NodeSettings.parse({})
    with pytest.raises(UserError, match="has no partition"):
        told().count_partitions(run())


def test_own_data_need_no_number_of_partitions():
    settings = Settings.parse(OWN)
    assert told(data_path="~/scans").count_partitions(settings) == 1
    assert told(data_path="~/scans").own_data(settings) == Path.home() / "scans"
    assert told(data_path="/scans").own_data(run()) is None
    with pytest.raises(UserError, match="this SuperNode has no data; name its images with data-p"):
        told().own_data(settings)


def test_in_simulation_the_runs_places_are_used(tmp_path):
    settings = run(cache_dir=str(tmp_path), dataset="/shared/set", generator="/g", device="cpu")
    assert told().localise(settings) == settings


def test_the_nodes_own_places_come_first():
    node = told(cache_dir="/c", device="cuda:1", data_path="/d", generator_path="/g2")
    local = node.localise(run(cache_dir="/x", dataset="/shared", generator="/g", device="cpu"))
    places = (local.cache_dir, local.device, local.dataset, local.generator)
    assert places == ("/c", "cuda:1", "/d", "/g2")
    assert node.localise(run(generator="own", policy="none")).generator == "/g2"


def test_what_is_no_path_stays_as_the_run_says():
    """Images of patients must not be taken for the digits."""
    local = told(data_path="/d", generator_path="/g").localise(run())
    assert (local.dataset, local.generator) == ("digits", "digits")
    local = told(data_path="/d", generator_path="/g").localise(run(dataset="a/b", generator="pool"))
    assert (local.dataset, local.generator) == ("a/b", "pool")


@pytest.mark.usefixtures("_deployed")
def test_a_deployed_node_writes_where_its_operator_said_or_at_home():
    settings = run(cache_dir="/of/the/run", output_dir="/of/the/run", device="cpu")
    local = told().localise(settings)
    assert (local.cache_dir, local.output_dir) == ("~/.cache/fedeas", "~/fedeas-runs")
    assert local.device == "cpu"
    assert told(cache_dir="/c").localise(settings).cache_dir == "/c"


@pytest.mark.usefixtures("_deployed")
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"dataset": "/etc"}, "dataset is '/etc' in the run configuration.*with data-path"),
        ({"dataset": "~/x"}, "dataset is '~/x' in the run configuration.*with data-path"),
        ({"dataset": "../x"}, "dataset is '../x' in the run configuration.*with data-path"),
        ({"pool_dataset": "./x"}, "pool-dataset is './x' in the run configuration.*hub id"),
        ({"generator": "/g"}, "generator is '/g' in the run configuration.*with generator-path"),
        ({"generator": "g"}, "generator is 'g' in the run configuration.*with generator-path"),
    ],
)
def test_a_deployed_node_reads_no_path_of_the_run(keys, words):
    with pytest.raises(PublicError, match=words):
        told(cache_dir="/c").localise(run(**keys))


@pytest.mark.usefixtures("_deployed")
def test_a_path_that_looks_like_a_hub_id_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert told().localise(run(generator="owner/name")).generator == "owner/name"
    (tmp_path / "owner/name").mkdir(parents=True)
    with pytest.raises(PublicError, match="generator is 'owner/name' in the run configuration"):
        told().localise(run(generator="owner/name"))


@pytest.mark.usefixtures("_deployed")
def test_a_deployed_node_reads_the_copies_that_its_operator_named():
    local = told(data_path="/d", generator_path="/g").localise(run(dataset="/x", generator="/y"))
    assert (local.dataset, local.generator) == ("/d", "/g")


def test_the_client_is_the_nodes(tmp_path):
    told = {"partition-id": 3, "cache-dir": str(tmp_path), "data-path": "/d"}
    client = Client.from_context(Context(1, 9, told, RecordDict(), OWN))
    assert client.partition_id == 3
    assert client.settings.cache_path == tmp_path
    assert client.data_path == Path("/d")


class Ray:
    """Ray as a process may find it."""

    def __init__(self, initialised, actor):
        self.is_initialized = lambda: initialised
        self.get_runtime_context = lambda: self
        self.get_actor_id = lambda: actor


@pytest.mark.parametrize(
    ("ray", "simulated"),
    [
        (None, False),
        (Ray(False, None), False),
        (Ray(True, None), False),
        (Ray(True, "an actor"), True),
    ],
)
def test_only_an_actor_of_ray_is_simulated(monkeypatch, ray, simulated):
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert REAL_IN_SIMULATION() is simulated
