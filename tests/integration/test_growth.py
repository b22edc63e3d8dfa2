"""Long runs and many clients: nothing grows, and little is needed."""

import json
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from real_runs import BIN, MARK, processes, rounds_of

ROUNDS = 500
FEW_DESCRIPTORS = 256


class Use(NamedTuple):
    """What all processes of a run hold together."""

    processes: int
    threads: int
    descriptors: int
    memory: float  # MiB, private


def use(mark: str) -> Use | None:
    """Return what is held by now; None where all processes have ended."""
    held = []
    for process in processes(mark):
        try:
            memory = process.memory_full_info().uss / 2**20
            held.append((process.num_threads(), process.num_fds(), memory))
        except psutil.Error:
            continue
    if not held:
        return None
    threads, descriptors, memory = (sum(each) for each in zip(*held, strict=True))
    return Use(len(held), threads, descriptors, memory)


def watched(
    words: list[str], record: Path, environment: dict[str, str]
) -> Iterator[tuple[int, Use]]:
    """Yield what a run holds after how many rounds, until it is complete."""
    with subprocess.Popen(
        [str(BIN / "fedeas"), *words], env=environment, stdout=subprocess.DEVNULL
    ) as run:
        while run.poll() is None:
            finished, held = len(rounds_of(record)), use(environment[MARK])
            if finished and held is not None:
                yield finished, held
            time.sleep(0.5)
    assert run.returncode == 0


def typical(seen: list[tuple[int, Use]], first: int, last: int) -> Use:
    uses = [each for finished, each in seen if first <= finished <= last]
    return Use(*(statistics.median(values) for values in zip(*uses, strict=True)))


@pytest.mark.long
def test_five_hundred_rounds_grow_nothing(
    tmp_path: Path, cache: Path, marked_environment: dict[str, str]
) -> None:
    words = [
        "run", "digits", "--set=num-clients=4", f"--set=rounds={ROUNDS}", "--set=policy=none",
        "--set=local-epochs=1", "--set=train-samples=120", "--set=test-samples=40",
        "--set=strategy=scaffold", f"--set=cache-dir={cache}", f"--set=output-dir={tmp_path}",
        "--set=run-name=r",
    ]  # fmt: skip
    seen = list(watched(words, tmp_path / "r", marked_environment))
    early, late = typical(seen, 50, 150), typical(seen, ROUNDS - 100, ROUNDS)
    print(json.dumps({"early": early._asdict(), "late": late._asdict(), "looks": len(seen)}))
    assert late.processes <= early.processes
    assert late.threads <= early.threads + 5
    assert late.descriptors <= early.descriptors + 10
    assert late.memory <= 1.1 * early.memory


@pytest.mark.long
def test_two_hundred_clients_need_few_descriptors(
    tmp_path: Path, cache: Path, marked_environment: dict[str, str]
) -> None:
    words = [
        "run", "digits", "--set=num-clients=200", "--set=rounds=2", "--set=policy=none",
        "--set=partitioner=iid", "--set=local-epochs=1", "--set=min-partition-size=1",
        f"--set=cache-dir={cache}", f"--set=output-dir={tmp_path}", "--set=run-name=r",
    ]  # fmt: skip
    limited = f'ulimit -n {FEW_DESCRIPTORS}; exec "$@"'
    done = subprocess.run(
        ["/bin/sh", "-c", limited, "sh", str(BIN / "fedeas"), *words],
        env=marked_environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = rounds_of(tmp_path / "r")
    assert [len(line["participants"]) for line in lines[1:]] == [200, 200]
