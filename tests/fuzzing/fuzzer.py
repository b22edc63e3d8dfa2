"""Feed a parser of ours wrong inputs, and tell what it should not have done.

``python tests/fuzzing/fuzzer.py --count 100000 --seed 0 [PARSER ...]`` prints a line of JSON for
each parser. An input is known by its number: ``--only NUMBER`` feeds that one alone.
"""

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mutation import Mutator

from fedeas_app.errors import UserError

Case = Callable[[Mutator], object]

SECONDS = 5.0  # of the processor's time that one input may take
_WAITING = 20  # times as long may it take by the clock: other processes may be busy
ROOM = 2**30  # bytes of address space that inputs may take in all
_SHOWN = 20


class HangError(BaseException):
    """An input took too long; no handler of errors catches it."""


@dataclass
class Outcome:
    """What came of many inputs to one parser.

    Attributes
    ----------
    read, refused : int
        Inputs that were accepted, and those answered by a sentence.
    seconds : float
        Of the processor's time.
    slowest : float
        Seconds of the slowest input.
    grown : int
        Bytes by which the process has grown at most.
    findings : list of str
        What should not have happened, with the input's number.
    """

    parser: str
    seed: int
    count: int = 0
    read: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    grown: int = 0
    findings: list[str] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)


def fuzz(
    parser: str,
    case: Case,
    numbers: range,
    seed: int,
    refusals: tuple[type[Exception], ...],
    seconds: float = SECONDS,
) -> Outcome:
    """Feed one parser all inputs of some numbers.

    Parameters
    ----------
    parser : str
    case : callable
        Makes one input with the mutator given and has it read.
    numbers : range
    seed : int
    refusals : tuple of exception types
        Those that the parser says it raises; their text has to be a single line.
    seconds : float
        Of the processor's time that one input may take.
    """
    outcome, started, before = Outcome(parser, seed), time.process_time(), _peak()
    for number in numbers:
        begun = time.process_time()
        mutator = Mutator(random.Random(f"{parser} {seed} {number}"))  # noqa: S311  # no secret
        try:
            with _limit(seconds):
                case(mutator)
            outcome.read += 1
        except refusals as error:
            outcome.refused += 1
            _note(outcome, number, _wrong_sentence(error))
        except (HangError, Exception) as error:  # that is what is looked for
            _note(outcome, number, _told(error))
        outcome.count += 1
        outcome.slowest = max(outcome.slowest, time.process_time() - begun)
    outcome.seconds, outcome.grown = time.process_time() - started, _peak() - before
    return outcome


def _wrong_sentence(error: Exception) -> str:
    text = str(error)
    if isinstance(error, UserError) and (not text or "\n" in text or "Traceback" in text):
        return f"no sentence: {text[:300]!r}"
    return ""


def _told(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "fedeas_app" in f.filename]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} at {where}: {str(error)[:200]}"


def _note(outcome: Outcome, number: int, finding: str) -> None:
    kind = finding.partition(": ")[0]
    if finding:
        outcome.kinds[kind] = outcome.kinds.get(kind, 0) + 1
        if outcome.kinds[kind] == 1 and len(outcome.findings) < _SHOWN:
            outcome.findings.append(f"input {number}: {finding}")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def hear_of_hangs() -> None:
    """Have inputs that take too long interrupted."""
    for clock in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(clock, _hang)


def _hang(number: int, frame: object) -> None:
    raise HangError("no end in sight")


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    clocks = {signal.ITIMER_PROF: seconds, signal.ITIMER_REAL: _WAITING * seconds}
    try:
        for clock, most in clocks.items():
            signal.setitimer(clock, most)
        yield
    finally:
        for clock in clocks:
            signal.setitimer(clock, 0)


def bound_memory() -> None:
    """Allow this process little more address space than it has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    """Feed the parsers named, or all."""
    sys.path.append(str(Path(__file__).parents[1]))  # what tests share
    from parsers import PARSERS, REFUSALS, outside_flower

    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("parsers", nargs="*", choices=[[], *PARSERS])
    words.add_argument("--count", type=int, default=1000)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--only", type=int)
    asked = words.parse_args()
    hear_of_hangs()
    outside_flower()
    numbers = range(asked.count) if asked.only is None else range(asked.only, asked.only + 1)
    refusals = () if asked.only is not None else REFUSALS
    with tempfile.TemporaryDirectory(prefix="fuzzing-", dir=_fast()) as scratch:
        cases = {name: PARSERS[name](_room(scratch, name)) for name in asked.parsers or PARSERS}
        bound_memory()
        for name, case in cases.items():
            outcome = fuzz(name, case, numbers, asked.seed, refusals)
            print(json.dumps(asdict(outcome)), flush=True)


def _fast() -> Path | None:
    """Return a directory in memory where the system has one."""
    memory = Path("/dev/shm")  # noqa: S108  # only its subdirectory is ours
    return memory if os.access(memory, os.W_OK) else None


def _room(scratch: str, name: str) -> Path:
    place = Path(scratch) / name
    place.mkdir()
    return place


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main()
