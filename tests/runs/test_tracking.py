"""Trackers: TensorBoard for real, the others by what they are told."""

import subprocess
import sys
from importlib.machinery import ModuleSpec
from typing import get_args

import accelerate
import numpy as np
import pytest
import torch
from accelerate.tracking import LOGGER_TYPE_TO_CLASS
from fake_grid import FakeGrid
from flwr.app import Array, ArrayRecord, Context, RecordDict
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

import server_app
from fedeas_app.commands import execution
from fedeas_app.errors import UserError
from fedeas_app.preparation import ClientPlan, Plan
from fedeas_app.runs import tracking
from fedeas_app.runs.directory import read_lines, read_summary
from fedeas_app.runs.record import RunRecord
from fedeas_app.runs.tracking import Tracking, require_tracker, tracked
from fedeas_app.settings import Settings
from fedeas_app.strategies.report import Participant, RoundReport

NAMES = sorted(set(get_args(Settings.model_fields["tracker"].annotation)) - {"none"})
ARRAYS = ArrayRecord({"w": Array(np.zeros(3, np.float32))})
PLAN = Plan(14.0, (ClientPlan(0, 100, 20, 5, 0.5, 0.25, 1.5),), {}, {})


class FakeTracker:
    """Keeps what it is told, and fails where it should."""

    requires_logging_directory = False

    def __init__(self, project="", files=None, **options):
        self.made_with = (project, files, options)
        self.told = []
        self.fails_at = ""

    def __getattr__(self, name):
        def tell(*words, **named):
            self.told.append((name, *words, *named.values()))
            if name == self.fails_at:
                raise ConnectionError("No route to host.\nLong story.")

        return tell


class WithFiles(FakeTracker):
    requires_logging_directory = True


@pytest.fixture
def installed(monkeypatch):
    """Pretend that the package of every tracker is there."""
    monkeypatch.setattr(tracking, "find_spec", lambda name: ModuleSpec(name, None, origin=name))


@pytest.fixture
def warnings(monkeypatch):
    lines = []
    monkeypatch.setattr(tracking, "log", lambda level, form, *words: lines.append(form % words))
    return lines


def report(failures=None, drift=2.5):
    people = (Participant(0, 30, 0.2, 2.0, 0.9, 0.75), Participant(1, 10, 0.4, 4.0, 0.1, 0.25))
    return RoundReport(people, failures or {}, drift)


def keep_a_run(settings):
    record = RunRecord(settings)
    with record.failure_noted(), record.tracked():
        record.add_plan(PLAN, settings)
        record.add_round(0, {"accuracy": 0.1, "loss": 2.3}, None)
        record.add_round(1, {"accuracy": 0.4, "loss": 1.7}, report({3: "Out of memory."}))
        record.add_round(2, {"accuracy": 0.2, "loss": 1.9}, report(drift=None))
        record.complete(ARRAYS)
    return record


def start(settings):
    server_app.main(FakeGrid(settings, 2), Context(1, 0, {}, RecordDict(), settings.to_flat()))
    return settings.output_path / settings.run_name


def test_the_key_takes_the_trackers_that_accelerate_knows():
    assert sorted(LOGGER_TYPE_TO_CLASS) == NAMES
    assert Settings.parse({}).tracker == "none"


def test_tensorboard_shows_every_number_of_the_record(configure):
    record = keep_a_run(configure(tracker="tensorboard", beta="auto", num_clients="auto"))
    events = EventAccumulator(str(record.directory / "tracking")).Reload()
    seconds = [line["seconds"] for line in read_lines(record.directory / "rounds.jsonl")]
    expected = {
        "accuracy": {0: 0.1, 1: 0.4, 2: 0.2},
        "loss": {0: 2.3, 1: 1.7, 2: 1.9},
        "seconds": dict(enumerate(seconds)),
        "train-loss": {1: 2.5, 2: 2.5},  # 0.75 · 2 + 0.25 · 4
        "effective-clients": {1: 1.6, 2: 1.6},  # 1 / (9/16 + 1/16)
        "drift": {1: 2.5},
        "failures": {1: 1, 2: 0},
        "final": {2: 0.2},
        "best": {2: 0.4},
        "auc": {2: 0.3},
    }
    assert sorted(events.Tags()["scalars"]) == sorted(expected)
    for name, values in expected.items():
        shown = {event.step: event.value for event in events.Scalars(name)}
        assert shown == {step: float(np.float32(value)) for step, value in values.items()}


def test_tensorboard_shows_the_resolved_configuration(configure):
    record = keep_a_run(configure(tracker="tensorboard", beta="auto", num_clients="auto"))
    (events,) = (record.directory / "tracking").rglob("*")  # of the run itself, not beside it
    metadata = (
        EventAccumulator(str(events)).Reload().SummaryMetadata("_hparams_/session_start_info")
    )
    content = HParamsPluginData.FromString(metadata.plugin_data.content)
    shown = {
        key: getattr(value, value.WhichOneof("kind"))
        for key, value in content.session_start_info.hparams.items()
    }
    settings = configure(tracker="tensorboard", beta=14.0, num_clients=1)
    assert shown == settings.to_flat()


def test_a_tracked_run_gives_the_same_bits_and_leaves_the_process_as_it_was(configure):
    def process():
        return (
            torch.get_num_threads(), torch.get_default_device(), torch.get_default_dtype(),
            torch.are_deterministic_algorithms_enabled(), torch.is_grad_enabled(),
        )  # fmt: skip

    state, numbers, before = torch.get_rng_state(), np.random.get_state()[1], process()  # noqa: NPY002  # nobody uses it
    runs = [start(configure(run_name=name, tracker=name, num_clients=2, rounds=2))
            for name in ("none", "tensorboard")]  # fmt: skip
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numbers)  # noqa: NPY002  # nobody uses it
    assert process() == before
    plain, with_tracker = (load_file(run / "model.safetensors") for run in runs)
    assert all(torch.equal(plain[name], with_tracker[name]) for name in plain | with_tracker)
    first, second = (read_lines(run / "rounds.jsonl") for run in runs)
    assert [line | {"seconds": 0} for line in first] == [line | {"seconds": 0} for line in second]
    made = [{path.name for path in run.iterdir()} for run in runs]
    assert made[1] - made[0] == {"tracking"}
    assert not accelerate.PartialState().use_distributed


def test_without_a_tracker_nothing_is_loaded():
    code = (
        "import sys; from pathlib import Path; from fedeas_app.runs.tracking import tracked\n"
        "with tracked('none', Path('nowhere')) as t: t.add_round({'round': 0, 'accuracy': 1.0})\n"
        "sys.exit(' '.join({'accelerate', 'tensorboard', 'torch'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "package"), [("wandb", "wandb"), ("comet_ml", "comet-ml"), ("mlflow", "mlflow")]
)
@pytest.mark.parametrize("spec", [None, ModuleSpec("wandb", None)], ids=["absent", "a directory"])
def test_a_tracker_that_is_not_installed_is_refused_before_anything_is_made(
    configure, monkeypatch, name, package, spec
):
    monkeypatch.setattr(tracking, "find_spec", lambda name: spec)
    monkeypatch.setattr(execution, "simulation", lambda settings: pytest.fail("Flower started"))
    settings = configure(tracker=name)
    words = f"tracker is '{name}', but .* `pip install {package}`, or set tracker to 'none'\\.$"
    with pytest.raises(UserError, match=words):
        execution.execute(settings, None, lambda directory: None)
    with pytest.raises(UserError, match=words):
        start(settings)
    assert not settings.output_path.exists()
    require_tracker("none")


def test_a_tracker_that_does_not_start_ends_the_run_at_once(configure, monkeypatch, installed):
    class NotLoggedIn(FakeTracker):
        def start(self):
            raise ValueError("No API key.\nSee the manual.")

    monkeypatch.setitem(LOGGER_TYPE_TO_CLASS, "wandb", NotLoggedIn)
    with pytest.raises(UserError, match=r"'wandb' cannot be started: No API key; set it up, or"):
        start(configure(tracker="wandb"))
    summary = read_summary(configure().output_path / "run")
    assert summary["status"] == "failed"
    assert "No API key" in summary["reason"]


@pytest.mark.parametrize("call", ["store_init_configuration", "log", "finish"])
def test_a_tracker_that_fails_later_is_told_no_more_and_the_run_goes_on(
    configure, monkeypatch, installed, warnings, call
):
    made = []

    def fail(*words, **options):
        made.append(FakeTracker(*words, **options))
        made[0].fails_at = call
        return made[0]

    fail.requires_logging_directory = False
    monkeypatch.setitem(LOGGER_TYPE_TO_CLASS, "mlflow", fail)
    record = keep_a_run(configure(tracker="mlflow"))
    assert read_summary(record.directory)["status"] == "completed"
    assert len(read_lines(record.directory / "rounds.jsonl")) == 3
    assert warnings == [
        "The tracker failed and is told no more (the record is whole): No route to host."
    ]
    calls = [name for name, *_ in made[0].told]
    assert calls.count(call) == (2 if call == "finish" else 1)
    assert calls[-1] == "finish"


def test_a_tracker_is_finished_also_when_the_run_fails(configure, monkeypatch, installed):
    fake = FakeTracker()
    monkeypatch.setattr(tracking, "_make", lambda name, directory: fake)
    record = RunRecord(configure(tracker="wandb"))

    def interrupted():
        with record.failure_noted(), record.tracked():
            record.add_round(0, {"accuracy": 0.1, "loss": 2.3}, None)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [name for name, *_ in fake.told] == ["start", "log", "finish"]


def test_a_tracker_is_told_of_the_run_and_of_no_client(configure):
    fake = FakeTracker()
    told = Tracking(fake)
    participants = [{"partition": 0, "num-examples": 30, "oui": 0.2, "weight": 1.0}]
    line = {"round": 4, "accuracy": 0.5, "loss": 1.0, "drift": None, "seconds": 2.0}
    told.add_round(line | {"participants": participants, "failures": {"3": "Out of memory."}})
    told.complete({"status": "completed", "final": 0.5, "best": 0.6, "auc": 0.4, "seconds": {}}, 4)
    assert fake.told == [
        ("log", {"accuracy": 0.5, "loss": 1.0, "seconds": 2.0, "failures": 1}, 4),
        ("log", {"final": 0.5, "best": 0.6, "auc": 0.4}, 4),
    ]
    assert {type(value) for value in configure().to_flat().values()} <= {str, int, float, bool}


@pytest.mark.parametrize("uri", ["", "https://mlflow.example.org"])
@pytest.mark.parametrize("name", NAMES)
def test_every_tracker_knows_the_run_and_keeps_its_files_with_it(
    monkeypatch, installed, tmp_path, name, uri
):
    monkeypatch.setattr("os.environ", environment := {"MLFLOW_TRACKING_URI": uri} if uri else {})
    kind = WithFiles if LOGGER_TYPE_TO_CLASS[name].requires_logging_directory else FakeTracker
    fakes = []

    def make(*words, **options):
        fakes.append(kind(*words, **options))
        return fakes[-1]

    make.requires_logging_directory = kind.requires_logging_directory
    monkeypatch.setitem(LOGGER_TYPE_TO_CLASS, name, make)
    directory = tmp_path / "my-run"
    directory.mkdir()
    with tracked(name, directory):
        assert (directory / "tracking").is_dir()
    files = directory / "tracking"
    expected = {
        "aim": ("my-run", files, {}),
        "clearml": ("fedeas", None, {"task_name": "my-run", "auto_connect_frameworks": False}),
        "comet_ml": ("fedeas", None, {}),
        "dvclive": ("fedeas", None, {"dir": str(files), "dvcyaml": None, "save_dvc_exp": False}),
        "mlflow": ("fedeas", None, {"run_name": "my-run"}),
        "swanlab": ("fedeas", None, {"experiment_name": "my-run", "logdir": str(files)}),
        "tensorboard": ("", files, {}),
        "trackio": ("fedeas", None, {"name": "my-run"}),
        "wandb": ("fedeas", None, {"name": "my-run", "dir": str(files)}),
    }
    assert fakes[0].made_with == expected[name]
    if name == "mlflow":
        own = f"sqlite:///{files}/mlflow.db"
        assert environment["MLFLOW_TRACKING_URI"] == (uri or own)
