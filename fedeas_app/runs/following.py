"""A run followed by its record while that grows; every line is read once."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from fedeas_app import fields
from fedeas_app.reading import parse_json


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

        What is no table is left out: whoever goes on with the record will say so. A file that
        has become shorter was written anew, and is read from its beginning.
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
        return [line for line in map(_table, complete.splitlines()) if line]


def _table(line: bytes) -> dict[str, Any]:
    try:
        content = parse_json(line.decode("utf-8"))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


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
    generator_rounds : int
        The last round of the generator that came to its end.
    generator_loss : float or None
        Its mean training loss; None where it did not count.
    """

    def __init__(self, directory: Path) -> None:
        self._preparation = GrowingLines(directory / "preparation.jsonl")
        self._rounds = GrowingLines(directory / "rounds.jsonl")
        self._generator = GrowingLines(directory / "generator.jsonl")
        self._images: dict[int, int] = {}
        self.rounds = 0
        self.accuracy: float | None = None
        self.generator_rounds = 0
        self.generator_loss: float | None = None

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
        readers = {
            self._generator: self._note_generator,
            self._preparation: self._note_client,
            self._rounds: self._note_round,
        }
        for lines, note in readers.items():
            for line in lines.take():
                with suppress(ValueError):  # a damaged value is shown to nobody
                    note(line)

    def _note_generator(self, line: dict[str, Any]) -> None:
        loss = None if line.get("loss") is None else fields.number(line, "loss")
        self.generator_rounds, self.generator_loss = fields.whole(line, "round"), loss

    def _note_client(self, line: dict[str, Any]) -> None:
        self._images[fields.whole(line, "partition-id")] = fields.whole(line, "synthetic")

    def _note_round(self, line: dict[str, Any]) -> None:
        if "accuracy" in line:  # else the run has failed in this round
            self.rounds, self.accuracy = (
                fields.whole(line, "round"),
                fields.number(line, "accuracy"),
            )
