"""Peak memory in simulation does not grow with the number of clients."""

import subprocess
import time
from pathlib import Path

import psutil
import pytest
from real_runs import BIN, MARK, processes


def peak_memory(clients: int, tmp_path: Path, cache: Path, environment: dict[str, str]) -> float:
    """Return the largest sum of private memory over all processes during training, in MiB.

    Digits enlarged to 32x32 pixels give a model of 2.2 MB: held all at once, the replies of 120
    clients would take 260 MB.
    """
    words = [
        "run", f"--set=num-clients={clients}", "--set=rounds=4", "--set=policy=none",
        "--set=partitioner=iid", "--set=image-size=32", "--set=local-epochs=1",
        f"--set=cache-dir={cache}", f"--set=output-dir={tmp_path}", f"--set=run-name={clients}",
    ]  # fmt: skip
    peak = 0.0
    with subprocess.Popen(
        [str(BIN / "fedeas"), *words], env=environment, stdout=subprocess.DEVNULL
    ) as run:
        while run.poll() is None:
            # Not while processes start: how they overlap then is chance.
            if (tmp_path / str(clients) / "rounds.jsonl").is_file():
                peak = max(peak, private_memory(environment[MARK]))
            time.sleep(0.1)
    assert run.returncode == 0
    assert peak > 0
    return peak


def private_memory(mark: str) -> float:
    total = 0
    for process in processes(mark):
        try:
            total += process.memory_full_info().uss
        except psutil.Error:
            continue
    return total / 2**20


@pytest.mark.long  # of replies in one process: test_updates.py and test_federation.py
def test_memory_does_not_grow_with_clients(
    tmp_path: Path, cache: Path, marked_environment: dict[str, str]
) -> None:
    # Both have more to average than the 64 MiB that are kept in memory before a file takes over.
    few = peak_memory(40, tmp_path, cache, marked_environment)
    many = peak_memory(120, tmp_path, cache, marked_environment)
    print(f"peak private memory: {few:.0f} MiB with 40 clients, {many:.0f} MiB with 120")
    assert many < few + 100, f"{few:.0f} MiB with 40 clients, {many:.0f} MiB with 120"
