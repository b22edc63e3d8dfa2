"""Nodes that come, go and come back while a run goes on."""

import json

import pytest
from fake_grid import FakeGrid
from flwr.app import Context, RecordDict
from own_data import NAMES, OWN_KEYS, write_site

import server_app
from fedeas_app import budget
from fedeas_app.client import Client

HELD = {0: [0, 1, 2], 1: [3, 4], 2: [5, 6, 7, 8, 9]}


@pytest.fixture
def sites(tmp_path):
    return {
        k: {"partition-id": k, "data-path": str(write_site(tmp_path / f"site-{k}", digits))}
        for k, digits in HELD.items()
    }


@pytest.fixture
def own(configure, tmp_path):
    def make(**keys):
        return configure(**OWN_KEYS | {"rounds": 4, "cache_dir": str(tmp_path / "cache")} | keys)

    return make


class Events:
    """Does something to the grid as soon as the server sends a round's first message."""

    def __init__(self, by_round):
        self.by_round = dict(by_round)
        self.grid = None

    def __call__(self, partition, request, reply):
        if request.metadata.message_type == "train":
            happens = self.by_round.pop(request.content["config"]["server-round"], None)
            if happens is not None:
                happens(self.grid)
        return reply


def start(settings, sites, events):
    grid = FakeGrid(settings, dict(enumerate(sites, 100)), node_configs=sites, tamper=events)
    events.grid = grid
    server_app.main(grid, Context(1, 0, {}, RecordDict(), settings.to_flat()))
    record = settings.output_path / "run"
    text = (record / "rounds.jsonl").read_text().splitlines()
    rounds = [json.loads(line) for line in text[1:]]
    took_part = [[p["partition"] for p in line["participants"]] for line in rounds]
    failed = [sorted(map(int, line["failures"])) for line in rounds]
    return took_part, failed, json.loads((record / "plan.json").read_text())


@pytest.mark.parametrize("strategy", ["fedoui", "scaffold"])
def test_who_comes_later_is_prepared_and_then_takes_part(own, sites, strategy):
    late = sites.pop(2)
    events = Events({1: lambda grid: grid.join(900, 2, late)})
    took_part, failed, plan = start(own(policy="none", strategy=strategy), sites, events)
    # Seen and asked after round 1, ready after round 2.
    assert took_part == [[0, 1], [0, 1], [0, 1, 2], [0, 1, 2]]
    assert failed == [[], [], [], []]
    assert [client["partition-id"] for client in plan["clients"]] == [0, 1, 2]
    asked = [m.metadata for m in events.grid.requests if m.metadata.dst_node_id == 900]
    kinds = [metadata.message_type for metadata in asked if metadata.message_type != "evaluate"]
    assert kinds == ["query.prepare", "train", "train"]


def test_who_leaves_is_a_failure_and_the_run_goes_on(own, sites):
    events = Events({2: lambda grid: grid.leave(101)})
    took_part, failed, _ = start(own(policy="none"), sites, events)
    assert took_part == [[0, 1, 2], [0, 2], [0, 2], [0, 2]]
    assert failed == [[], [1], [1], [1]]


def test_who_comes_back_under_another_id_has_its_place_again(own, sites):
    def restart(grid):
        grid.leave(101)
        grid.join(901, 1, sites[1])

    settings = own(policy="none", rounds=5)
    took_part, failed, plan = start(settings, sites, Events({2: restart}))
    assert took_part == [[0, 1, 2], [0, 2], [0, 2], [0, 1, 2], [0, 1, 2]]
    assert failed == [[], [1], [1], [], []]
    assert len(plan["clients"]) == 3


def test_a_partition_that_is_taken_is_not_given_away(own, sites, caplog):
    def double(grid):
        grid.join(902, 1, sites[0] | {"partition-id": 1})

    took_part, _, _ = start(own(policy="none"), sites, Events({1: double}))
    assert took_part == [[0, 1, 2]] * 4


def test_who_cannot_prepare_does_not_disturb(own, sites):
    broken = sites[2] | {"partition-id": 3, "data-path": "/nowhere"}
    events = Events({1: lambda grid: grid.join(903, 3, broken)})
    took_part, failed, _ = start(own(policy="none"), sites, events)
    assert took_part == [[0, 1, 2]] * 4
    assert failed == [[]] * 4


def test_a_latecomer_makes_what_it_lacks(own, sites, fake_generator):
    fake_generator.class_names = NAMES
    late = sites.pop(2)
    settings = own(policy="fedeas")
    events = Events({1: lambda grid: grid.join(900, 2, late)})
    _, _, plan = start(settings, sites, events)
    client = Client(settings, 2, 1, data_path=late["data-path"])
    made = budget.allocate(client.counts, "fedeas", beta=12.0).sum()
    assert plan["clients"][2]["synthetic"] == made > 0


class Forging(Events):
    """Has partition 2 say another number in training than it said when it prepared."""

    def __call__(self, partition, request, reply):
        reply = super().__call__(partition, request, reply)
        if partition == 2 and request.metadata.message_type == "train":
            reply.content["metrics"]["num-examples"] += 1
        return reply


def test_a_latecomer_is_held_to_what_it_declared(own, sites):
    late = sites.pop(2)
    events = Forging({1: lambda grid: grid.join(900, 2, late)})
    took_part, failed, _ = start(own(policy="none"), sites, events)
    assert took_part == [[0, 1]] * 4
    assert failed == [[], [], [2], [2]]


def test_who_comes_back_still_makes_its_part_of_a_total(own, sites, fake_generator):
    """It is asked to prepare as if it were new, and then told what was decided at first."""
    fake_generator.class_names = NAMES

    def restart(grid):
        grid.leave(101)
        grid.join(901, 1, sites[1])

    settings = own(policy="uniform", weight_by="total", rounds=5)
    took_part, failed, plan = start(settings, sites, Events({2: restart}))
    assert took_part == [[0, 1, 2], [0, 2], [0, 2], [0, 1, 2], [0, 1, 2]]
    assert failed == [[], [1], [1], [], []]
    assert len({client["synthetic"] for client in plan["clients"]} - {0}) >= 1
