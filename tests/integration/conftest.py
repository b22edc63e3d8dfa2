"""Real runs: real processes, a Flower home and a cache of their own."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_runs import BIN, Command, marked


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that the runs of a session share, as a user's would."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def marked_environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment whose processes can be told from all others, and are gone afterwards."""
    with marked(tmp_path) as environment:
        yield environment


@pytest.fixture
def fedeas(marked_environment: dict[str, str], tmp_path: Path, cache: Path) -> Command:
    """Run ``fedeas`` as a user does: from another directory, on a terminal of 100 columns."""

    def command(*words: str, timeout: float = 300) -> "subprocess.CompletedProcess[str]":
        places = [f"--set=cache-dir={cache}", f"--set=output-dir={tmp_path / 'runs'}"]
        wants_places = words[0] in ("run", "plan")
        return subprocess.run(
            [str(BIN / "fedeas"), *words[:1], *(places if wants_places else []), *words[1:]],
            cwd=tmp_path,
            env=marked_environment | {"COLUMNS": "100"},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return command
