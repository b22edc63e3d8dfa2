"""What only a deployed run can show: sites that restart, come late and leave, and a large model."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deployed import Federation, Loopback, federation, node_config, wait_until
from own_data import write_site
from real_runs import marked, rounds_of

from fedeas_app.runs.directory import read_lines

pytestmark = pytest.mark.long

DIGITS = "0123456789"
SITES = ("site-0", "site-1", "site-2")
SMALL = ("--set=policy=none", "--set=train-samples=300", "--set=local-epochs=1")


@pytest.fixture(scope="module")
def federation_of_three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """A server with TLS that knows three sites by their keys."""
    root = tmp_path_factory.mktemp("sites")
    with marked(root) as environment, federation(root / "f", environment, Loopback()) as made:
        made.make_certificates(*SITES)
        made.start_server()
        made.register(*SITES)
        yield made


@pytest.fixture
def server(federation_of_three: Federation) -> Iterator[Federation]:
    """The same, none of its sites being there before or after a test."""
    federation_of_three.start_server()  # what has ended is started again, as by its unit
    yield federation_of_three
    for site in SITES:
        process = federation_of_three.processes.get(site)
        if process is not None and process.poll() is None:
            federation_of_three.stop(site)


@pytest.fixture
def sites(server: Federation, tmp_path: Path) -> Federation:
    """Three sites that share a dataset, each with a cache of its own, as yet empty."""
    for number in range(3):
        start(server, number, tmp_path)
    return server


def start(server: Federation, number: int, root: Path) -> None:
    server.start_node(SITES[number], node_config(number, 3, root / "caches"))


class Run:
    """A run that an operator has started, and its record as it grows."""

    def __init__(self, server: Federation, root: Path, *words: str) -> None:
        places = (f"--set=output-dir={root}", "--set=run-name=deployed")
        self.record = root / "deployed"
        self._process = server.spawn("fedeas", "run", "--superlink", "site", *words, *places)

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """The rounds that are over, without the initial model."""
        return rounds_of(self.record)[1:]

    def partitions(self) -> list[list[int]]:
        """Who took part in each round."""
        return [[p["partition"] for p in line["participants"]] for line in self.rounds]

    def wait_until(self, true: Callable[[], bool]) -> None:
        """Wait until something is so, which has to be before the run ends."""
        wait_until(lambda: true() or not self.going, 600)
        assert self.going, self._process.communicate()

    def finish(self) -> None:
        """Wait for the end, which has to be a good one."""
        said, complaint = self._process.communicate(timeout=900)
        assert self._process.returncode == 0, said + complaint

    @property
    def going(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None


# Every message starts a process at each site, so that messages are saved, and not only images.
GENERATORS = {
    "shipped": ("--set=rounds=2",),
    "federated": (
        "--set=generator=federated", "--set=generator-rounds=2", "--set=generator-epochs=1",
        "--set=generator-samples-every=0", "--set=generator-checked=2",
        "--set=train-samples=100", "--set=rounds=1", "--set=beta=4.0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("generator", GENERATORS)
def test_one_seed_gives_the_same_bits_deployed_and_simulated(
    sites: Federation, tmp_path: Path, generator: str
) -> None:
    few = ("--set=num-clients=3", "--set=sampler-steps=4")
    words = ("digits", *few, *GENERATORS[generator])
    run = Run(sites, tmp_path, *words)
    run.finish()
    own_cache = f"--set=cache-dir={tmp_path / 'simulated-cache'}"
    places = (f"--set=output-dir={tmp_path}", "--set=run-name=simulated", own_cache)
    done = sites.command("fedeas", "run", *words, *places)
    assert done.returncode == 0, done.stdout + done.stderr
    simulated = tmp_path / "simulated"
    assert plan_of(run.record) == plan_of(simulated)
    assert plan_of(simulated)["made"] == plan_of(simulated)["synthetic"] > 0
    for one, other in zip(rounds_of(run.record), rounds_of(simulated), strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    models = [path / "model.safetensors" for path in (run.record, simulated)]
    assert models[0].read_bytes() == models[1].read_bytes()
    assert generator_of(run.record) == generator_of(simulated)
    assert any(generator_of(simulated)) == (generator == "federated")


def plan_of(record: Path) -> dict[str, Any]:
    """Return the plan without the time that it took."""
    plan = json.loads((record / "plan.json").read_text(encoding="utf-8"))
    for client in plan["clients"]:
        del client["seconds"]
    return plan


def generator_of(record: Path) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """Return the files of the generator that the clients trained, and its rounds without times."""
    root = record / "generator"
    files = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    lines = read_lines(record / "generator.jsonl")
    contents = {name: path.read_bytes() for name, path in files.items()}
    return contents, [{**line, "seconds": 0} for line in lines]


@pytest.mark.parametrize("strategy", ["scaffold", "moon"])
def test_a_restarted_site_goes_on_and_one_without_its_cache_says_so(
    sites: Federation, tmp_path: Path, strategy: str
) -> None:
    run = Run(sites, tmp_path, *SMALL, f"--set=strategy={strategy}", "--set=rounds=5")
    run.wait_until(lambda: bool(run.rounds))
    for number in (1, 2):
        sites.stop(SITES[number])
    shutil.rmtree(tmp_path / "caches/2")
    for number in (1, 2):
        start(sites, number, tmp_path)
    run.finish()
    assert run.partitions()[0] == run.partitions()[-1] == [0, 1, 2]
    assert not any(lost_by(run, 0) + lost_by(run, 1))
    assert sum(lost_by(run, 2)) == 1
    assert lost_by(run, 2)[0] == lost_by(run, 2)[-1] == 0
    assert run.rounds[-1]["accuracy"] > run.rounds[0]["accuracy"]


def lost_by(run: Run, partition: int) -> list[float]:
    """Return whether a client had lost its state, for each round in which it took part."""
    told = [p for line in run.rounds for p in line["participants"] if p["partition"] == partition]
    return [participant["state-lost"] for participant in told]


def test_a_site_may_come_late_and_another_leave_and_come_back(
    server: Federation, tmp_path: Path
) -> None:
    """Each site has images of its own; the late one makes those that it lacks, then trains."""
    configs = [own_data(tmp_path, number) for number in range(3)]
    config = tmp_path / "run.toml"
    config.write_text(
        f'dataset = "own"\nclasses = "{",".join(DIGITS)}"\nimage-size = 8\nimage-channels = 1\n'
        'test-dataset = "digits"\nsampler-steps = 4\nlocal-epochs = 1\nrounds = 10\n'
    )
    for number in range(2):
        server.start_node(SITES[number], configs[number])
    server.wait_for("site-1", "SuperNode ID")
    run = Run(server, tmp_path, str(config), "--set=num-clients=2")
    run.wait_until(lambda: bool(run.rounds))
    server.start_node(SITES[2], configs[2])
    run.wait_until(lambda: [0, 1, 2] in run.partitions())
    server.stop(SITES[1])
    run.wait_until(lambda: [0, 2] in run.partitions())
    server.start_node(SITES[1], configs[1])
    run.finish()
    check_who_took_part(run)
    plan = json.loads((run.record / "plan.json").read_text())
    assert [client["partition-id"] for client in plan["clients"]] == [0, 1, 2]
    assert plan["clients"][2]["made"] == plan["clients"][2]["synthetic"] > 0


def own_data(root: Path, number: int) -> str:
    """Write one site's images and return what its SuperNode is told."""
    digits = (range(5), range(4, 10), range(2, 8))[number]
    images = write_site(root / f"scans-{number}", digits, first=20 * number, names=DIGITS)
    return f'partition-id={number} data-path="{images}" cache-dir="{root}/own-caches/{number}"'


def check_who_took_part(run: Run) -> None:
    """Two, then all three, then two without the one that left, then all three again."""
    took_part = run.partitions()
    stages = [who for k, who in enumerate(took_part) if k == 0 or who != took_part[k - 1]]
    assert stages == [[0, 1], [0, 1, 2], [0, 2], [0, 1, 2]]
    for line, who in zip(run.rounds, took_part, strict=True):
        assert sorted(line["failures"]) == (["1"] if who == [0, 2] else [])


def test_a_model_of_45_megabytes(sites: Federation, tmp_path: Path) -> None:
    slow = "--set=learning-rate=0.01"
    run = Run(sites, tmp_path, *SMALL, slow, "--set=model=resnet18", "--set=rounds=2")
    peaks: dict[str, float] = {}
    while run.going:
        peaks = merged(peaks, sites.peak_memory())
        time.sleep(0.5)
    run.finish()
    print(peaks, [round(line["seconds"], 1) for line in run.rounds])
    assert (run.record / "model.safetensors").stat().st_size > 44e6
    assert run.partitions() == [[0, 1, 2]] * 2
    # PyTorch and the evaluation take most of it; a dozen models more would not fit.
    assert peaks["flwr-serverapp"] < 2000


def merged(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in {*one, *other}}
