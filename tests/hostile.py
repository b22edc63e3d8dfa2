"""Clients that send something else than what they trained, behind a grid in one process.

They are told all that a hostile client could know, and more: what the others' OUI was.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from fake_grid import FakeGrid
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict

import server_app
from fedeas_app import seeds
from fedeas_app.settings import Settings

# From an honest update Δ_k of one array, and a random stream, to what is sent in its place.
Forgery = Callable[[np.ndarray, np.random.Generator], np.ndarray]
UPDATES: dict[str, Forgery] = {
    "honest": lambda delta, rng: delta,
    "scaled": lambda delta, rng: 100 * delta,
    "flipped": lambda delta, rng: -delta,
    "flipped-tenfold": lambda delta, rng: -10 * delta,
    "random": lambda delta, rng: rng.normal(0, 1, delta.shape),
}


@dataclass
class Hostile:
    """What the hostile clients of a run do to what they send; a `tamper` of `FakeGrid`.

    Parameters
    ----------
    partitions : set of int
    update : str
        What is sent in the place of the update, a key of `UPDATES`.
    oui : bool
        Report the middle of the others' values of the last round, where FedOUI's score is largest.
    factor : int
        By what n_k is multiplied.
    early : bool
        Whether n_k is forged from the preparation on, so that no later number gives it away.
    """

    partitions: set[int]
    update: str = "honest"
    oui: bool = False
    factor: int = 1
    early: bool = False
    _last: dict[int, float] = field(default_factory=dict)

    def __call__(self, partition: int, request: Message, reply: Message) -> Message:
        kind = request.metadata.message_type
        if reply.has_error():
            return reply
        if kind == "train" and partition not in self.partitions:
            self._last[partition] = reply.content["metrics"]["oui"]
        if partition in self.partitions and kind in ("train", "query.prepare"):
            self._forge(kind, request, reply)
        return reply

    def _forge(self, kind: str, request: Message, reply: Message) -> None:
        metrics = reply.content["metrics"]
        if kind == "train" or self.early:
            metrics["num-examples"] *= self.factor
        if kind != "train":
            return
        if self.oui and self._last:
            metrics["oui"] = median(self._last.values())
        server_round = request.content["config"]["server-round"]
        rng = seeds.numpy_rng("hostile", server_round, metrics["partition-id"])
        reply.content["arrays"] = self._forged(
            request.content["arrays"], reply.content["arrays"], rng
        )

    def _forged(
        self, sent: ArrayRecord, back: ArrayRecord, rng: np.random.Generator
    ) -> ArrayRecord:
        forge = UPDATES[self.update]
        forged = {}
        for name, array in back.items():
            w_t, w = sent[name].numpy(), array.numpy()
            forged[name] = Array(np.asarray(w_t + forge(w - w_t, rng), w.dtype))
        return ArrayRecord(forged)


def accuracies(settings: Settings, clients: int, hostile: Hostile | None = None) -> list[float]:
    """Go through a whole run and return the test accuracy after each round, from round 0 on."""
    grid = FakeGrid(settings, clients, tamper=hostile)
    server_app.main(grid, Context(1, 0, {}, RecordDict(), settings.to_flat()))
    text = (settings.output_path / settings.run_name / "rounds.jsonl").read_text(encoding="utf-8")
    return [json.loads(line)["accuracy"] for line in text.splitlines()]
