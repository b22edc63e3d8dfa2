"""Whole runs on data that each site has alone, and what leaves the sites."""

import json

import numpy as np
import pytest
import torch
from fake_generator import FakeGenerator
from fake_grid import FakeGrid
from flwr.app import Context, RecordDict
from flwr.common.serde import message_to_proto
from own_data import NAMES, OWN_KEYS, write_site
from safetensors.numpy import load_file

import server_app
from fedeas_app import client, task
from fedeas_app.client import Client
from fedeas_app.errors import UserError

HELD = {0: [0, 1, 2, 3], 1: [3, 4, 5, 6, 7], 2: [8, 9]}

METRICS = {
    "query.outlook": {"partition-id", "num-examples", "synthetic", "skew", "share-weight"},
    "query.prepare": {
        "partition-id", "num-examples", "synthetic", "made", "imbalance-before",
        "imbalance-after", "seconds",
    },
    "train": {"partition-id", "num-examples", "oui", "loss"},
    "evaluate": {"partition-id", "num-examples", "accuracy", "loss"},
}  # fmt: skip
BESIDE = {"query.prepare": {"config"}, "train": {"arrays"}}


@pytest.fixture
def sites(tmp_path):
    """Three sites with different classes; each node's configuration."""
    return {
        k: {
            "partition-id": k,
            "data-path": str(write_site(tmp_path / f"hospital-{k}", digits, first=20 * k)),
            "cache-dir": str(tmp_path / f"cache-{k}"),
        }
        for k, digits in HELD.items()
    }


@pytest.fixture
def own(configure, tmp_path):
    def make(**keys):
        return configure(**OWN_KEYS | {"rounds": 2, "cache_dir": str(tmp_path / "server")} | keys)

    return make


@pytest.fixture
def generators(monkeypatch, request):
    """What every node's ``generator-path`` leads to; the server has no generator."""
    by_path = {}

    def open_it(settings):
        assert settings.generator in by_path, "the server opened a generator"
        return by_path[settings.generator]

    for module in (client, task):
        monkeypatch.setattr(module, "open_generator", open_it)
    return by_path


def add_generator(generators, sites, digest, partitions=(0, 1, 2)):
    path = f"/generators/{digest}"
    generators[path] = FakeGenerator(digest)
    generators[path].class_names = NAMES
    for k in partitions:
        sites[k]["generator-path"] = path


def start(settings, sites, **options):
    grid = FakeGrid(settings, len(sites), node_configs=sites, **options)
    server_app.main(grid, Context(1, 0, {}, RecordDict(), settings.to_flat()))
    return grid, settings.output_path / "run"


def read(record, name):
    text = (record / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if "jsonl" in name else json.loads(text)


@pytest.mark.parametrize("strategy", ["fedoui", "scaffold"])
@pytest.mark.parametrize("policy", ["fedeas", "missing-only"])
def test_nothing_but_what_is_documented_leaves_a_site(own, sites, generators, strategy, policy):
    add_generator(generators, sites, "d" * 64)
    settings = own(policy=policy, generator="own", strategy=strategy)
    grid, record = start(settings, sites)
    model = load_file(record / "model.safetensors")
    kinds = {reply.metadata.message_type for reply in grid.replies}
    assert kinds == set(METRICS) - ({"query.outlook"} if policy == "fedeas" else set())
    for reply in grid.replies:
        kind, content = reply.metadata.message_type, reply.content
        has_state = kind == "train" and strategy == "scaffold"
        assert set(content["metrics"]) == METRICS[kind] | ({"state-lost"} if has_state else set())
        assert set(content) == (
            {"metrics"} | BESIDE.get(kind, set()) | ({"extras"} if has_state else set())
        )
        check_values(content, model)
        check_bytes(reply, sites)


def check_values(content, model):
    for value in content["metrics"].values():  # one β is asked about: no list is longer
        assert isinstance(value, int | float) or len(value) == 1
    for config in content.config_records.values():
        assert dict(config) == {"generator-digest": "d" * 64}
    for arrays in content.array_records.values():
        assert {name: array.numpy().shape for name, array in arrays.items()} == {
            name: array.shape for name, array in model.items()
        }


def check_bytes(reply, sites):
    """Look for names in what goes over the wire, whatever key it may hide under."""
    proto = message_to_proto(reply).SerializeToString()
    for secret in [*NAMES, "hospital", "patient", *(s["data-path"] for s in sites.values())]:
        assert secret.encode() not in proto


@pytest.mark.parametrize("broken", ["image", "class"])
def test_a_failed_site_says_nothing_of_its_data(own, sites, tmp_path, broken):
    folder = tmp_path / "hospital-1" / (NAMES[3] if broken == "image" else "elephants")
    folder.mkdir(exist_ok=True)
    (folder / "anna.png").write_bytes(b"no image")
    with pytest.raises(UserError) as caught:
        start(own(), sites)
    assert str(caught.value) == (
        "query.prepare failed: Partition 1 failed; the log of its SuperNode says why."
    )


def test_the_record_is_that_of_the_sites(own, sites, generators):
    add_generator(generators, sites, "d" * 64)
    settings = own(policy="fedeas", generator="own")
    _, record = start(settings, sites)
    # 12 of each class: 2 of 12, rounded from 2.4, are held out.
    plan = read(record, "plan.json")
    assert [c["num-examples"] for c in plan["clients"]] == [10 * len(d) for d in HELD.values()]
    assert plan["synthetic"] > 0
    assert plan["generator-digest"] == "d" * 64
    manifest = read(record, "manifest.json")
    assert manifest["evaluated-on"] == "clients"
    assert manifest["classes"] == list(NAMES)
    assert {k for k, digest in manifest["digests"].items() if digest} == {"initial-model"}
    rounds = read(record, "rounds.jsonl")
    assert [line["held-out"] for line in rounds] == [2 * 11] * 3
    assert [line["round"] for line in rounds] == [0, 1, 2]


def test_accuracy_is_the_mean_over_all_images_held_out(own, sites):
    settings = own(policy="none", strategy="fedavg", rounds=1)
    _, record = start(settings, sites)
    model = Client(settings, 0, 1, data_path=sites[0]["data-path"]).model()
    state = load_file(record / "model.safetensors")
    model.load_state_dict({name: torch.from_numpy(a) for name, a in state.items()})
    right, total = 0, 0
    for k, node in sites.items():
        test = Client(settings, k, 1, data_path=node["data-path"]).held_out
        pixels = test.images.transpose(0, 3, 1, 2).astype(np.float32) / 63.75 - 2
        logits = model.eval()(torch.from_numpy(pixels)).detach().numpy()
        right += int((logits.argmax(1) == test.labels).sum())
        total += len(test.labels)
    assert total == 22
    assert read(record, "rounds.jsonl")[-1]["accuracy"] == pytest.approx(right / total)


def test_the_server_may_have_a_test_set(own, sites, tmp_path):
    everything = write_site(tmp_path / "test", range(10), first=100, count=3)
    grid, record = start(own(policy="none", test_dataset=str(everything)), sites)
    assert "evaluate" not in {reply.metadata.message_type for reply in grid.replies}
    assert read(record, "manifest.json")["evaluated-on"] == "server"
    assert read(record, "manifest.json")["digests"]["test"]
    plan = read(record, "plan.json")  # nothing is held out
    assert [c["num-examples"] for c in plan["clients"]] == [12 * len(d) for d in HELD.values()]


def test_a_site_that_holds_out_nothing_counts_nothing(own, sites, tmp_path):
    sites[2]["data-path"] = str(write_site(tmp_path / "small", [8], count=2))
    _, record = start(own(policy="none"), sites)
    assert read(record, "rounds.jsonl")[-1]["held-out"] == 2 * 9


def test_without_any_image_held_out_the_run_says_what_to_do(own, sites, tmp_path):
    for k in sites:
        sites[k]["data-path"] = str(write_site(tmp_path / f"small-{k}", [k], count=2))
    with pytest.raises(UserError, match=r"none of them holds out an image\. Set test-dataset"):
        start(own(policy="none"), sites)


@pytest.mark.parametrize("wanted", ["", "d" * 64])
def test_other_generators_end_the_run_and_are_named(own, sites, generators, wanted):
    add_generator(generators, sites, "d" * 64)
    add_generator(generators, sites, "e" * 64, [1])
    words = (
        f"Partition 1 has the generator {'e' * 64}, but the run asks for {'d' * 64}"
        if wanted
        else rf"partitions and digests: 0, 2 {'d' * 64}; 1 {'e' * 64}\)"
    )
    with pytest.raises(UserError, match=words):
        start(own(policy="fedeas", generator="own", generator_digest=wanted), sites)
    made = bool(generators[f"/generators/{'e' * 64}"].asked)
    assert made is not bool(wanted)  # known beforehand, nothing is made in vain


def test_one_seed_gives_the_same_bits(own, sites):
    first = start(own(policy="none"), sites)[1] / "model.safetensors"
    settings = own(policy="none", run_name="again")
    grid = FakeGrid(settings, 3, node_configs=sites, shuffle=5)
    server_app.main(grid, Context(1, 0, {}, RecordDict(), settings.to_flat()))
    again = settings.output_path / "again/model.safetensors"
    assert first.read_bytes() == again.read_bytes()
