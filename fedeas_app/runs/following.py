"""A run followed by its record while that grows; every line is read once."""

import json
from pathlib import Path
from typing import Any


class GrowingLines:
    """The lines of a JSONL file that is being written, each handed out once.

    Parameters
    ----------
    path : Path
        It may be missing yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._taken = 0  # bytes

    def take(self) -> list[dict[str, Any]]:
        """Return the lines that have become complete since the last time.

        A file that has become shorter was written anew, and is read from its beginning.
        """
        if not self._path.is_file():
            return []
        if self._path.stat().st_size < self._taken:
            self._taken = 0
        with open(self._path, "rb") as stream:
            stream.seek(self._taken)
            fresh = stream.read()
        complete = fresh[: fresh.rfind(b"\n") + 1]
        self._taken += len(complete)
        return [json.loads(line) for line in complete.splitlines()]


class Following:
    """How far a run is.

    Parameters
    ----------
    directory : Path
        Of its record; it may be missing yet.

    Attributes
    ----------
    rounds : int
        The last round that came to its end.
    accuracy : float or None
        After that round; None before there is one.
    """

    def __init__(self, directory: Path) -> None:
        self._preparation = GrowingLines(directory / "preparation.jsonl")
        self._rounds = GrowingLines(directory / "rounds.jsonl")
        self._images: dict[int, int] = {}
        self.rounds = 0
        self.accuracy: float | None = None

    @property
    def ready(self) -> int:
        """Clients that are prepared, each once, also if it came back later."""
        return len(self._images)

    @property
    def images(self) -> int:
        """The synthetic images of these clients."""
        return sum(self._images.values())

    def look(self) -> None:
        """Read what is new."""
        for line in self._preparation.take():
            self._images[line["partition-id"]] = line["synthetic"]
        for line in self._rounds.take():
            if "accuracy" in line:  # else the run has failed in this round
                self.rounds, self.accuracy = line["round"], line["accuracy"]
