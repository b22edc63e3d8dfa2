"""Every parser of ours, fed wrong inputs: a sentence or a valid result, soon, and in bounds."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import fuzzer
import pytest
from mutation import Mutator
from parsers import PARSERS

from fedeas_app.errors import UserError

SEED = 0
FEW, MANY = 200, 100_000


def feed(count: int, *parsers: str) -> dict[str, dict[str, Any]]:
    """Feed parsers in a process of their own, whose memory is bounded; return what came of it."""
    words = ["--count", str(count), "--seed", str(SEED), *parsers]
    done = subprocess.run(
        [sys.executable, str(Path(fuzzer.__file__)), *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return {outcome["parser"]: outcome for outcome in map(json.loads, done.stdout.splitlines())}


def require_sound(outcome: dict[str, Any], count: int) -> None:
    assert outcome["findings"] == []
    assert outcome["count"] == outcome["read"] + outcome["refused"] == count
    assert outcome["grown"] < fuzzer.ROOM


@pytest.fixture(scope="module")
def few() -> dict[str, dict[str, Any]]:
    return feed(FEW)


@pytest.mark.parametrize("parser", PARSERS)
def test_a_few_wrong_inputs(few: dict[str, dict[str, Any]], parser: str) -> None:
    require_sound(few[parser], FEW)
    assert few[parser]["read"] > 0 or few[parser]["refused"] > 0


@pytest.mark.long
@pytest.mark.parametrize("parser", PARSERS)
def test_a_hundred_thousand_wrong_inputs(parser: str) -> None:
    outcome = feed(MANY, parser)[parser]
    print(json.dumps(outcome))
    require_sound(outcome, MANY)


def crash(mutator: Mutator) -> None:
    raise IndexError("list index out of range")


def hang(mutator: Mutator) -> None:
    while True:
        pass


def ramble(mutator: Mutator) -> None:
    raise UserError("one line\nand another")


@pytest.mark.parametrize(
    ("case", "finding"),
    [(crash, "IndexError at ?: list"), (hang, "HangError at ?"), (ramble, "no sentence")],
)
def test_what_should_not_happen_is_found(case: fuzzer.Case, finding: str) -> None:
    before = {clock: signal.getsignal(clock) for clock in (signal.SIGPROF, signal.SIGALRM)}
    try:
        fuzzer.hear_of_hangs()
        outcome = fuzzer.fuzz("it", case, range(2), 0, (UserError,), seconds=0.1)
    finally:
        for clock, handler in before.items():
            signal.signal(clock, handler)
    assert [line.startswith(f"input 0: {finding}") for line in outcome.findings] == [True]
    assert list(outcome.kinds.values()) == [2]


def test_an_input_is_known_by_its_number() -> None:
    def made() -> list[bytes]:
        rngs = (random.Random(number) for number in range(50))  # noqa: S311  # no secret
        return [Mutator(rng).data(b'{"a": 1}') for rng in rngs]

    assert made() == made()
    assert len(set(made())) > 25
