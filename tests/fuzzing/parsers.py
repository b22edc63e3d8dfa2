"""Every parser of ours, as a function that makes one wrong input and has it read."""

import gzip
import io
import json
import struct
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import torch
from fake_generator import FakeGenerator
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from mutation import NUMBERS, Mutator
from PIL import Image
from safetensors.numpy import save

from fedeas_app import client_evaluation, messages, preparation
from fedeas_app.checkpoint import Checkpoint, load_checkpoint, restoring
from fedeas_app.client import Order
from fedeas_app.client_state import Address, ClientState
from fedeas_app.commands.compare import _pairs, _parse_list
from fedeas_app.commands.configuration import load_settings, parse_override, resolve
from fedeas_app.comparison.cells import make_cells
from fedeas_app.comparison.grid import read_grid
from fedeas_app.comparison.reading import read_comparison
from fedeas_app.data import columns, decode, folders, idx, partitions, split
from fedeas_app.errors import UserError
from fedeas_app.federation import reason
from fedeas_app.files import sha256
from fedeas_app.forecast import forecast, read_counts
from fedeas_app.generators import pretrained
from fedeas_app.generators.cache import Drawer, read_shard, write_shard
from fedeas_app.generators.checkpoint import step_of
from fedeas_app.generators.ddpm import Ddpm
from fedeas_app.generators.federated.sharing import read_found
from fedeas_app.generators.pipeline_parts import PipelineDirectory
from fedeas_app.generators.scheduler_memo import remembered
from fedeas_app.inventory import describe, take, verify
from fedeas_app.node import NodeSettings
from fedeas_app.preparation import ClientPlan, Plan
from fedeas_app.runs import resuming
from fedeas_app.runs.following import Following
from fedeas_app.runs.reading import read_run
from fedeas_app.settings import Settings
from fedeas_app.store import DamagedError
from fedeas_app.strategies import make_strategy
from fedeas_app.strategies.replies import Acceptance
from fedeas_app.strategies.state import StrategyState
from fedeas_app.strategies.updates import BadReplyError, Updates

REFUSALS = (UserError, DamagedError, BadReplyError)
Case = Callable[[Mutator], object]
ROOT = Path(__file__).parents[2]


def outside_flower() -> None:
    """Let this process make messages."""
    for name in ("_run_id", "_task_id", "_node_id"):
        setattr(TaskIdentity, name, 1)


def configuration(place: Path) -> Case:
    """Files of `fedeas run`."""
    seeds = [path.read_bytes() for path in sorted((ROOT / "conf").glob("*.toml"))]
    seeds.append(tomli_w.dumps(Settings.parse({}).to_flat()).encode())
    path = place / "config.toml"

    def case(mutator: Mutator) -> None:
        path.write_bytes(mutator.data(mutator.pick(seeds)))
        load_settings(path, None)

    return case


def settings(place: Path) -> Case:
    """Flower's run configuration, as a process of the app gets it."""
    flat = Settings.parse({}).to_flat()
    keys = list(flat)

    def case(mutator: Mutator) -> None:
        chosen = {key: flat[key] for key in mutator.rng.sample(keys, 3)}
        wrong = mutator.value(chosen)
        given = wrong if isinstance(wrong, dict) else {key: mutator.anything() for key in chosen}
        kept = Settings.parse(given)
        Settings.parse(kept.to_flat())

    return case


def overrides(place: Path) -> Case:
    """What `--set`, `--vary` and `--baseline` say."""
    seeds = (
        "alpha=0.1", "seed=0,1,2", "dataset=uoft-cs/cifar10", 'run-name="a"', "classes=a,b",
        "beta=auto", "augment=true", 'seed=[1, 2]', "output-dir=./runs", "rounds=1_0",
    )  # fmt: skip

    def case(mutator: Mutator) -> None:
        text = mutator.text(mutator.pick(seeds))
        _parse_list(text)
        _pairs(text)
        resolve(dict([parse_override(text)]))

    return case


def grid(place: Path) -> Case:
    """What `fedeas compare` is given."""
    seeds = [path.read_bytes() for path in sorted((ROOT / "bench/grids").glob("*.toml"))]
    seeds.append(b'target = 0.8\n[baseline]\npolicy = "none"\n[set]\nrounds = 3\n'
                 b'[[grid]]\npolicy = ["none", "fedeas"]\nseed = [0, 1]\n')  # fmt: skip
    path = place / "grid.toml"

    def case(mutator: Mutator) -> None:
        path.write_bytes(mutator.data(mutator.pick(seeds[-2:])))
        make_cells(read_grid(path), {}, resolve, place)

    return case


def counts_table(place: Path) -> Case:
    """The table of `fedeas plan --counts`."""
    seeds = (b"client,cat,dog\na,10,0\nb,3,40\n", b"1,2,3\n4,5,6\n", b"\xef\xbb\xbf5;1\r\n",
             b'"a","b"\n"1","2"\n', b"cat\tdog\n1\t2\n")  # fmt: skip
    path = place / "counts.csv"

    def case(mutator: Mutator) -> None:
        path.write_bytes(mutator.data(mutator.pick(seeds)))
        forecast(read_counts(path), mutator.pick(("fedeas", "full", "uniform", "none")), 12.0)

    return case


def idx_files(place: Path) -> Case:
    """IDX files, plain and gzipped; the names decide what they should hold."""
    images = struct.pack(">4B3I", 0, 0, 8, 3, 4, 2, 2) + bytes(range(16))
    labels = struct.pack(">4BI", 0, 0, 8, 1, 4) + bytes([0, 1, 0, 1])

    def case(mutator: Mutator) -> None:
        wrong = mutator.pick(("images-idx3", "labels-idx1"))
        for name, content in (("images-idx3", images), ("labels-idx1", labels)):
            data = mutator.data(content) if name == wrong else content
            plain, zipped = (place / f"train-{name}-ubyte{end}" for end in ("", ".gz"))
            plain.unlink(missing_ok=True)
            if mutator.rng.random() < 0.5:
                plain.write_bytes(data)
            packed = gzip.compress(data, 1)
            zipped.write_bytes(mutator.data(packed) if mutator.rng.random() < 0.3 else packed)
        source = idx.idx_folder(place)
        columns.classes(source.train.labels, None, source.class_names)

    return case


def images(place: Path) -> Case:
    """Encoded images, one by one and as the file that they are decoded to."""
    kinds, modes = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"), ("L", "RGB", "P", "1")
    seeds = [_encoded(kind, mode) for kind in kinds for mode in (*modes, "I;16", "RGBA")]
    seeds = list(filter(None, seeds))
    out = place / "images.npy"

    def case(mutator: Mutator) -> None:
        first, second = (mutator.data(mutator.pick(seeds)) for _ in range(2))
        size, channels = mutator.pick((0, 8)), mutator.pick((0, 1, 3))
        decode.write_images(out, iter([("a", first), ("b", second)]), 2, size, channels)

    return case


def _encoded(kind: str, mode: str) -> bytes | None:
    stream = io.BytesIO()
    image = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) * 4)
    try:
        (image if mode == "L" else image.convert(mode)).save(stream, kind)
    except (OSError, ValueError, KeyError):
        return None
    return stream.getvalue()


def decoded_dataset(place: Path) -> Case:
    """What a dataset was decoded to, in the cache."""
    shape = (6, 4, 4, 1)
    pixels, labels = np.zeros(shape, np.uint8), np.arange(6) % 2
    meta = {"dataset": "a", "split": "train", "shape": shape, "class_names": ["x", "y"],
            "digest": split.digest(pixels, labels, ("x", "y"))}  # fmt: skip
    files = {"images.npy": _npy(pixels), "labels.npy": _npy(labels)}

    def case(mutator: Mutator) -> None:
        _write(place, mutator, files)
        (place / "meta.json").write_bytes(mutator.json(meta))
        split.read_split(place, verify=mutator.rng.random() < 0.5)

    return case


def partition(place: Path) -> Case:
    """What a partition was kept as, in the cache."""
    parts = [np.array([0, 2, 4]), np.array([1, 3])]
    files = {"indices.npy": _npy(np.concatenate(parts)), "sizes.npy": _npy(np.array([3, 2])),
             "digest.txt": partitions.partition_digest(parts).encode()}  # fmt: skip

    def case(mutator: Mutator) -> None:
        _write(place, mutator, files)
        partitions._read(place, num_clients=2, num_samples=5)

    return case


def shard(place: Path) -> Case:
    """Synthetic images in the cache; half of them under the name of what they now hold."""
    arrays = (np.array([0, 1]), np.array([0, 0]), np.zeros((2, 4, 4, 1), np.uint8))
    good = write_shard(place, *arrays)
    content = good.read_bytes()

    def case(mutator: Mutator) -> None:
        data = _safetensors(mutator, content)
        honest = mutator.rng.random() < 0.1
        path = good if honest else place / f"{sha256(data)[:32]}.safetensors"
        path.write_bytes(data)
        try:
            read_shard(path, (4, 4, 1))
        finally:
            path.unlink()

    return case


def inventory(place: Path) -> Case:
    """What `fedeas cache` lists, describes and checks."""
    drawer = Drawer(place, FakeGenerator(), 5, "cpu")
    drawer.fetch(np.array([2, 1]))
    state = ClientState(place, Address("0" * 32, 0), 1)
    state.save(1, {"c": torch.arange(3.0)})
    generator = pretrained.unpack("digits", place / "generators")
    remembered(place, {"sampler": "ddim", "steps": 5}, lambda: ["DDIMScheduler", {}])
    half = place / "datasets" / ("a" * 64)
    half.mkdir(parents=True)
    (half / "meta.json").write_text('{"dataset": "a", "split": "train", "shape": [1, 2, 2, 1]}')
    found = [drawer.directory / "drawer.json", next(drawer.directory.glob("*.safetensors")),
             next((place / "client-states").rglob("*.safetensors")),
             next(place.glob("schedulers/*/*.json")),
             generator / "sha256.json", half / "meta.json"]  # fmt: skip
    good = {path: path.read_bytes() for path in found}
    (generator / pretrained._WEIGHTS).write_bytes(b"")  # or most of the time goes into its hash

    def case(mutator: Mutator) -> None:
        path = mutator.pick(found)
        path.write_bytes(mutator.data(good[path]))
        try:
            for entry in take(place).entries:
                describe(entry)
            verify(place)
        finally:
            path.write_bytes(good[path])

    return case


def run_checkpoint(place: Path) -> Case:
    """What an interrupted run goes on from."""
    model = ArrayRecord({"w": _array(np.ones((2, 3), np.float32)), "n": _array(np.array(3))})
    values = {"key": "0" * 32, "accepted": {"0": 3}, "oui-window": [[0.1]], "oui-smoothed": {}}
    Checkpoint(3, model, StrategyState(ArrayRecord(), values)).save(place)
    path = place / resuming.CHECKPOINT
    good = path.read_bytes()
    client = ClientPlan(0, 9, 3, 3, 0.4, 0.3, 0.5)
    plan = Plan(12.0, (client,), {0: 1}, {0: Order()})
    strategies = [make_strategy(Settings.parse({"strategy": name}), plan, ["w"])
                  for name in ("fedoui", "scaffold", "fedadam", "fedavg")]  # fmt: skip

    def forge(mutator: Mutator) -> None:
        """Write one whose checksum is right."""
        state = StrategyState(_wrong_arrays(mutator, model), mutator.value(values))
        with suppress(Exception):  # it cannot be written at all
            Checkpoint(mutator.pick((1, 0, -1, 2**70)), model, state).save(place)

    def case(mutator: Mutator) -> None:
        path.write_bytes(_safetensors(mutator, good))
        if mutator.rng.random() < 0.3:
            forge(mutator)
        found = load_checkpoint(place)
        with restoring(place):
            mutator.pick(strategies).restore(found.state)

    return case


def client_state(place: Path) -> Case:
    """What a client kept of its last round; what is damaged is lost, and no error."""
    state = ClientState(place, Address("0" * 32, 1), 0)
    state.save(1, {"c": torch.arange(6.0).reshape(2, 3)})
    path = state._path(Address("0" * 32, 1), 1)
    good = path.read_bytes()

    def case(mutator: Mutator) -> None:
        path.write_bytes(_safetensors(mutator, good))
        state.load(torch.device("cpu"))

    return case


def generator(place: Path) -> Case:
    """A generator's directory: its network, scheduler and card; weights now and then."""
    whole = pretrained.unpack("digits", place)
    names = ("unet/config.json", "scheduler/scheduler_config.json", "card.json")
    good = {name: json.loads((whole / name).read_text()) for name in names}
    weights = whole / pretrained._WEIGHTS
    start = weights.read_bytes()[:20_000]
    weights.write_bytes(start)
    with suppress(UserError):  # all that is imported late is imported now
        for sampler in ("ddpm", "ddim", "dpm-solver++"):
            _open(whole, sampler, 5)._load_unet(torch.float32)

    def case(mutator: Mutator) -> None:
        name = mutator.pick(names)
        (whole / name).write_bytes(mutator.json(good[name]))
        try:
            sampler, steps = mutator.pick(("ddpm", "ddim", "dpm-solver++")), mutator.pick((0, 5))
            made = _open(whole, sampler, steps)
            _ = made.digest, made.image_shape, made.class_names
            if mutator.rng.random() < 0.02:
                weights.write_bytes(mutator.data(start))
                made._load_unet(torch.float32)
        finally:
            (whole / name).write_text(json.dumps(good[name]))

    return case


def _open(directory: Path, sampler: str, steps: int) -> Ddpm:
    keys = {"sampler": sampler, "sampler-steps": steps, "cache-dir": str(directory.parent)}
    return Ddpm(directory, Settings.parse({"device": "cpu"} | keys))


def pipeline(place: Path) -> Case:
    """The index of a pretrained pipeline and what it says of its parts."""
    index = {"_class_name": "DiTPipeline", "_diffusers_version": "0.36.0",
             "id2label": {"0": "cat", "1": "dog"}, "scheduler": ["diffusers", "DDIMScheduler"],
             "transformer": ["diffusers", "DiTTransformer2DModel"],
             "vae": ["diffusers", "AutoencoderKL"]}  # fmt: skip
    for part in ("scheduler", "transformer", "vae"):
        (place / part).mkdir()
        (place / part / "config.json").write_text('{"num_embeds_ada_norm": 2}')
        (place / part / "diffusion_pytorch_model.safetensors").write_bytes(b"")
    (place / "scheduler/scheduler_config.json").write_text("{}")
    (place / "model_index.json").write_text(json.dumps(index))
    PipelineDirectory(place, "'it'")  # it loads diffusers, which is no input's fault

    def case(mutator: Mutator) -> None:
        (place / "model_index.json").write_bytes(mutator.json(index))
        config = {"num_embeds_ada_norm": 2, "sample_size": 4}
        (place / "transformer/config.json").write_bytes(mutator.json(config))
        made = PipelineDirectory(place, "'it'")
        _ = made.num_classes, made.id2label, made.digests()

    return case


def training_checkpoint(place: Path) -> Case:
    """What an interrupted training of a generator goes on from."""
    path = place / "state.safetensors"
    good = save({"unet.w": np.zeros(2, np.float32)}, {"training": "{}", "rest": '{"step": 7}'})

    def case(mutator: Mutator) -> None:
        path.write_bytes(_safetensors(mutator, good))
        step_of(place)

    return case


def run_record(place: Path) -> Case:
    """A run's record, as reports, comparisons and runs that go on read it."""
    files = _record()
    _write_all(place, files)
    settings = Settings.parse(tomllib.loads(files["config.toml"].decode()))

    def case(mutator: Mutator) -> None:
        name = mutator.pick(list(files))
        text = mutator.data(files[name])
        (place / name).write_bytes(_json(mutator, files[name], text))
        try:
            _follow(place)
            read_run(place)
            resuming.require_resumable(place, settings)
            resuming.continued(place, 1, {"digests": {}, "versions": {}, "machine": {}})
            resuming.cut_back(place, 1)
        finally:
            _write_all(place, files)

    return case


def comparison(place: Path) -> Case:
    """A comparison's index."""
    index = {"varied": ["strategy"], "baseline": "a", "target": 0.8, "failed": {"y": "why"},
             "arms": [{"label": "a", "values": {"strategy": "fedavg"}, "baseline": None,
                       "cells": [{"name": "x", "seed": 0}, {"name": "y", "seed": 1}]}]}  # fmt: skip
    cell = place / "cells" / "x"
    cell.mkdir(parents=True)
    _write_all(cell, _record())

    def case(mutator: Mutator) -> None:
        (place / "comparison.json").write_bytes(mutator.json(index))
        read_comparison(place)

    return case


def node(place: Path) -> Case:
    """What a SuperNode's operator writes, and a run's paths there."""
    base = {"partition-id": 0, "num-partitions": 3, "data-path": "/data", "cache-dir": "~/c",
            "device": "cpu", "generator-path": ""}  # fmt: skip
    runs = [Settings.parse({}), Settings.parse({"dataset": "/d", "generator": "./g"})]

    def case(mutator: Mutator) -> None:
        values = mutator.value(base)
        found = NodeSettings.parse(values if isinstance(values, dict) else base)
        run = runs[mutator.rng.random() < 0.01]  # whose path is looked for among the plug-ins
        found.count_partitions(run)
        found.localise(run)
        found.own_data(run)

    return case


def orders(place: Path) -> Case:
    """What a client reads from the server."""
    config = {
        "beta": 12.0, "share": 5, "generator-digest": "", "server-round": 3,
        "state-key": "0" * 32, "state-round": 2, "state-checkpoint": 1, "betas": [1.0],
    }  # fmt: skip
    parameters = {"w": torch.zeros(2, 3)}
    extras = ArrayRecord({"w": _array(np.zeros((2, 3), np.float32))})

    def case(mutator: Mutator) -> None:
        content = RecordDict({"config": ConfigRecord(_scalars(mutator, config))})
        if mutator.rng.random() < 0.5:
            content["extras"] = _wrong_arrays(mutator, extras)
        if mutator.rng.random() < 0.05:
            del content["config"]
        msg = Message(content, 1, "train")
        readers = (
            messages.read_order, messages.read_round, messages.read_state, messages.read_betas,
            messages.read_digest, messages.read_generator_files,
            lambda msg: messages.read_extras(msg, parameters),
        )  # fmt: skip
        mutator.pick(readers)(msg)

    return case


def replies(place: Path) -> Case:
    """What the server reads from clients."""
    trained = {"partition-id": 0, "num-examples": 7, "oui": 0.3, "loss": 0.5, "state-lost": 0}
    prepared = {"partition-id": 0, "num-examples": 7, "synthetic": 3, "made": 3, "seconds": 0.1,
                "checked": 9, "copies": 1,
                "imbalance-before": 0.4, "imbalance-after": 0.3, "share-weight": 4,
                "skew": [0.3], "accuracy": 0.5, "loss": 0.2}  # fmt: skip
    model = ArrayRecord({"w": _array(np.zeros((2, 3), np.float32)), "n": _array(np.array(3))})

    def case(mutator: Mutator) -> None:
        request = Message(RecordDict(), 1, "train")
        if mutator.rng.random() < 0.5:
            reply = _reply(mutator, request, trained)
            reply.content["arrays"] = _wrong_arrays(mutator, model)
            with Updates(model) as models, Updates(ArrayRecord()) as nothing:
                has_state = mutator.rng.random() < 0.5
                Acceptance({0: 7}, models, nothing, has_state=has_state)(0, reply)
                models.average({0: 1.0})
            return
        reply = _reply(mutator, request, prepared)
        client_evaluation._read(reply)
        messages.read_generator(reply)
        readers = (
            preparation.read_client, lambda reply: preparation.read_sums(reply, 1),
            lambda reply: read_found(reply, 32),
            preparation.read_present,
        )  # fmt: skip
        mutator.pick(readers)(reply)

    return case


def failures(place: Path) -> Case:
    """The reasons of clients that failed."""
    seeds = ("<class 'ValueError'>:<'boom'>", "Exception ClientAppException occurred. Message: x",
             "<class 'a'>:<'" + "'>" * 50)  # fmt: skip

    def case(mutator: Mutator) -> None:
        from flwr.app import Error

        text = mutator.text(mutator.pick(seeds))
        reason(Message(Error(2, text), reply_to=Message(RecordDict(), 1, "train")))

    return case


def image_folder(place: Path) -> Case:
    """Names in a folder of images, and labels of tables."""

    def case(mutator: Mutator) -> None:
        labels = np.array([mutator.pick(("a", "b", "", "\0", "x" * 999)) for _ in range(4)])
        numbers = np.array([mutator.pick((0, 1, -1, 2**62)) for _ in range(4)])
        declared = mutator.pick((None, ("a", "b"), ("a",), ()))
        folders.entries(place)
        columns.classes(numbers if declared is not None else labels, None, declared)
        columns.onto(("a", "b"), labels, None, None, "it")

    return case


def _write(place: Path, mutator: Mutator, files: dict[str, bytes]) -> None:
    wrong = mutator.pick(list(files))
    for name, content in files.items():
        (place / name).write_bytes(mutator.data(content) if name == wrong else content)


def _write_all(place: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (place / name).write_bytes(content)


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _array(values: np.ndarray) -> Any:
    from flwr.app import Array

    return Array(values)


def _safetensors(mutator: Mutator, data: bytes) -> bytes:
    """Make mistakes anywhere, or in the header alone, whose length stays right."""
    if mutator.rng.random() < 0.3:
        return mutator.data(data)
    (length,) = struct.unpack("<Q", data[:8])
    header = mutator.json(_inner(mutator, json.loads(data[8 : 8 + length])))
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


def _inner(mutator: Mutator, header: dict[str, Any]) -> dict[str, Any]:
    """Make mistakes in the JSON that our own metadata are."""
    own = header.get("__metadata__", {})
    changed = {k: mutator.json(json.loads(v)).decode("utf-8", "replace") for k, v in own.items()
               if v.startswith("{") and mutator.rng.random() < 0.5}  # fmt: skip
    return header | ({"__metadata__": own | changed} if own else {})


def _json(mutator: Mutator, good: bytes, damaged: bytes) -> bytes:
    """Return damaged text, or sound JSON with wrong values."""
    if mutator.rng.random() < 0.5 or not good.startswith(b"{"):
        return damaged
    lines = [json.loads(line) for line in good.decode().splitlines()]
    wrong = mutator.value(lines)
    wrong = wrong if isinstance(wrong, list) else lines
    return b"".join(json.dumps(line).encode() + b"\n" for line in wrong)


def _record() -> dict[str, bytes]:
    config = {"rounds": 2, "num-clients": 2, "alpha": 0.5, "strategy": "scaffold"}
    client = {"partition-id": 0, "num-examples": 9, "synthetic": 3, "made": 3,
              "imbalance-before": 0.4, "imbalance-after": 0.3, "seconds": 0.5}  # fmt: skip
    participant = {"partition": 0, "num-examples": 9, "oui": 0.2, "loss": 0.7, "score": 0.5,
                   "weight": 1.0, "drift": 0.1}  # fmt: skip
    rounds = [{"round": 0, "accuracy": 0.1, "loss": 2.3, "seconds": 0.1}] + [
        {"round": n, "accuracy": 0.5, "loss": 1.0, "seconds": 1.5, "train-loss": 0.7,
         "effective-clients": 1.0, "drift": 0.1, "participants": [participant],
         "failures": {"1": "no reply"}} for n in (1, 2)
    ]  # fmt: skip
    tables = {
        "summary.json": {"status": "failed", "reason": "x", "seconds": {"load": 1.0}},
        "manifest.json": {"versions": {"torch": "2"}, "machine": {"cores": 2}, "classes": ["a"],
                          "digests": {"train": "0", "test": "0"}, "evaluated-on": "server"},
        "plan.json": {"beta": 12.0, "real": 9, "synthetic": 3, "made": 3, "imbalance-before": 0.4,
                      "imbalance-after": 0.3, "generator-digest": "", "clients": [client]},
        "counts.json": {"classes": ["a"], "real": [[9]], "synthetic": [[3]]},
        "preparation.jsonl": client,
        "generator.jsonl": {"round": 1, "loss": 0.5, "seconds": 1.5, "weights": {"0": 1.0},
                            "failures": {"1": "no reply"}},
        "generator-copies.json": {"checked": 8, "copies": 1, "failures": {"no room": 1},
                                  "clients": [{"partition_id": 0, "checked": 8, "copies": 1}]},
    }  # fmt: skip
    lines = "".join(json.dumps(line) + "\n" for line in rounds)
    files = {name: (json.dumps(table) + "\n").encode() for name, table in tables.items()}
    return files | {"config.toml": tomli_w.dumps(config).encode(), "rounds.jsonl": lines.encode()}


def _follow(place: Path) -> None:
    run = Following(place)
    run.look()
    _ = run.ready, run.images, f"{run.accuracy or 0:.2%}"


def _scalars(mutator: Mutator, table: dict[str, Any]) -> dict[str, Any]:
    """Return a table of what Flower carries, with wrong values and absent keys."""
    wrong = dict(table)
    for key in mutator.rng.sample(list(wrong), mutator.rng.randint(0, 3)):
        if mutator.rng.random() < 0.2:
            del wrong[key]
        else:
            wrong[key] = mutator.pick((*filter(_carried, NUMBERS), "", "x", b"\0", [], [1.5], ["a"],
                                       True, [True], "0" * 31 + "g"))  # fmt: skip
    return wrong


def _carried(number: float) -> bool:
    return isinstance(number, float) or -(2**63) <= number < 2**63


def _reply(mutator: Mutator, request: Message, metrics: dict[str, Any]) -> Message:
    known = (int, float)
    wrong = {k: v for k, v in _scalars(mutator, metrics).items() if _is_metric(v, known)}
    content = RecordDict({"metrics": MetricRecord(wrong)})
    if mutator.rng.random() < 0.3:
        odd = mutator.pick(("", "a" * 64, 3, [1], b"x"))
        content["config"] = ConfigRecord({"generator-digest": odd})
    if mutator.rng.random() < 0.05:
        del content["metrics"]
    return Message(content, reply_to=request)


def _is_metric(value: Any, known: tuple[type, ...]) -> bool:
    listed = value if isinstance(value, list) else [value]
    return all(type(one) in known for one in listed)


def _wrong_arrays(mutator: Mutator, arrays: ArrayRecord) -> ArrayRecord:
    """Return arrays with wrong bytes, types, shapes or names."""
    from flwr.app import Array

    made = {}
    for name, array in arrays.items():
        parts = {"dtype": array.dtype, "shape": array.shape, "stype": array.stype,
                 "data": array.data}  # fmt: skip
        what = mutator.rng.randrange(8)
        if what == 0:
            parts["data"] = mutator.data(array.data)
        elif what == 1:
            parts["dtype"] = mutator.pick(("float64", "object", "", "int8", "<U99", "|V9"))
        elif what == 2:
            parts["shape"] = mutator.pick(((), (-1,), (2**62,), (10**9, 10**9), (6,)))
        elif what == 3:
            parts["stype"] = mutator.pick(("", "pickle", "x"))
        elif what == 4:
            parts["data"] = _npy(np.array(mutator.pick((np.nan, np.inf, "x", 3)), ndmin=2))
        made[mutator.text(name) if what == 5 else name] = Array(**parts)
    return ArrayRecord(made)


PARSERS: dict[str, Callable[[Path], Case]] = {
    each.__name__: each
    for each in (
        configuration, settings, overrides, grid, counts_table, idx_files, images, image_folder,
        decoded_dataset, partition, shard, inventory, run_checkpoint, client_state, generator,
        pipeline, training_checkpoint, run_record, comparison, node, orders, replies,
        failures,
    )
}  # fmt: skip
