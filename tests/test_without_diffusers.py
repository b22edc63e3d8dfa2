"""Where all images are cached, no process of a run loads diffusers: it costs seconds in each."""

import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

from fake_grid import FakeGrid
from flwr.app import Context, RecordDict
from flwr.supercore.task_identity import TaskIdentity

import server_app
from fedeas_app import node
from fedeas_app.checking import check
from fedeas_app.runs.directory import read_summary
from fedeas_app.settings import Settings


def complete(keys):
    """Do what the processes of a run do, one after the other; return how many images were made."""
    settings = Settings.parse(keys)
    check(settings)
    server_app.main(FakeGrid(settings, 3), Context(1, 0, {}, RecordDict(), keys))
    record = settings.output_path / settings.run_name
    assert read_summary(record)["status"] == "completed"
    prepared = (record / "preparation.jsonl").read_text().splitlines()
    return sum(json.loads(line)["made"] for line in prepared)


def complete_elsewhere(keys):
    """Do it in a fresh process; return also whether diffusers was loaded there."""
    for name in ("_run_id", "_task_id", "_node_id"):
        setattr(TaskIdentity, name, 1)
    node.in_simulation = lambda: True
    return complete(keys), "diffusers" in sys.modules


def test_a_run_whose_images_are_cached_loads_no_diffusers(configure, tmp_path):
    small = {"num_clients": 3, "rounds": 1, "train_samples": 60, "policy": "fedeas",
             "sampler_steps": 4, "cache_dir": str(tmp_path / "cache")}  # fmt: skip
    first, again = (configure(**small, run_name=name).to_flat() for name in ("first", "again"))
    assert complete(first) > 0
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as elsewhere:
        assert elsewhere.submit(complete_elsewhere, again).result() == (0, False)
