"""Write a run down while it happens.

=====================  ==========================================================================
``config.toml``        the resolved configuration; ``fedeas run config.toml`` repeats the run
``manifest.json``      versions, machine, and digests of data, partition, generator, initial model
``preparation.jsonl``  a line for each client as it becomes ready
``plan.json``          the plan: totals, imbalance before and after, every client's part
``rounds.jsonl``       a line a round: accuracy, loss, every participant's n_k, OUI, score, weight,
                       drift, and what else the strategy found out about it
``model.safetensors``  the final model
``accuracy.png``       test accuracy over rounds
``summary.json``       final, best, AUC, seconds for each phase; or why the run failed
``tracking/``          the files of a tracker that keeps any, if one was chosen
=====================  ==========================================================================

``fedeas run``, on whose machine all simulated clients are, adds ``counts.json`` (images of each
class at each client), ``samples.png`` (some of what was generated) and ``flower.log``.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tomli_w
from flwr.app import ArrayRecord
from safetensors.torch import save

from fedeas_app.errors import UserError
from fedeas_app.evaluation import area_under_curve
from fedeas_app.files import make_directory, write_bytes, write_text
from fedeas_app.preparation import ClientPlan, Plan
from fedeas_app.runs.tracking import Tracking, require_tracker, tracked
from fedeas_app.settings import Settings
from fedeas_app.strategies.report import Participant, RoundReport


class RunRecord:
    """The record of one run.

    Parameters
    ----------
    settings : Settings

    Raises
    ------
    UserError
        The directory cannot be made, a run of this name is there already, or the tracker is not
        installed.
    """

    def __init__(self, settings: Settings) -> None:
        require_tracker(settings.tracker)
        self.directory = _new_directory(settings)
        self._tracker = settings.tracker
        self._tracking = Tracking()
        self._seconds: dict[str, float] = {}
        self._accuracies: list[float] = []
        self._round_started = time.perf_counter()
        self._failures = 0
        self._write_config(settings)
        self._summarise("running")

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time one phase of the run."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - started

    def add_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Keep what the run was made of."""
        self._write_json("manifest.json", manifest)

    def add_client(self, client: ClientPlan) -> None:
        """Keep that a client is ready."""
        self._append("preparation.jsonl", _kebab(asdict(client)))

    def add_plan(self, plan: Plan, settings: Settings) -> None:
        """Keep the plan, and what it resolved of the settings; the first round starts here."""
        resolved = plan.resolve(settings)
        self._write_json("plan.json", plan.to_dict())
        self._write_config(resolved)
        self._tracking.configure(resolved)
        self._round_started = time.perf_counter()

    def add_latecomer(self, client: ClientPlan, plan: Plan) -> None:
        """Keep that a client is ready that came, or came back, during the rounds."""
        self.add_client(client)
        self._write_json("plan.json", plan.to_dict())

    def add_round(
        self, server_round: int, metrics: Mapping[str, float], report: RoundReport | None
    ) -> None:
        """Keep a round's result; round 0 is the initial model, with no report."""
        now = time.perf_counter()
        line: dict[str, Any] = {
            "round": server_round,
            **metrics,
            "seconds": now - self._round_started,
        }
        self._round_started = now
        if report is not None:
            self._accuracies.append(metrics["accuracy"])
            self._failures += len(report.failures)
            line |= {
                "train-loss": report.train_loss,
                "effective-clients": report.effective_clients,
                "drift": report.drift,
                "participants": [_line(p) for p in report.participants],
                "failures": {str(partition): text for partition, text in report.failures.items()},
            }
        self._append("rounds.jsonl", line)
        self._tracking.add_round(line)

    def complete(self, arrays: ArrayRecord) -> dict[str, Any]:
        """Keep the final model, the plot and the summary, and return the summary."""
        from fedeas_app.figures.accuracy import plot_accuracy

        write_bytes(self.directory / "model.safetensors", save(arrays.to_torch_state_dict()))
        plot_accuracy(self._accuracies, self.directory / "accuracy.png")
        summary = self._summarise(
            "completed",
            final=self._accuracies[-1],
            best=max(self._accuracies),
            auc=area_under_curve(self._accuracies),
            failures=self._failures,
        )
        self._tracking.complete(summary, len(self._accuracies))
        return summary

    @contextmanager
    def tracked(self) -> Iterator[None]:
        """Pass on to the tracker, if the settings name one, what the record is told."""
        with tracked(self._tracker, self.directory) as self._tracking:
            yield

    @contextmanager
    def failure_noted(self) -> Iterator[None]:
        """Keep why the run ended early, if it does."""
        try:
            yield
        except BaseException as error:
            reason = str(error) if isinstance(error, UserError) else repr(error)
            self._summarise("failed", reason=reason)
            raise

    def _summarise(self, status: str, **values: Any) -> dict[str, Any]:
        summary = {"status": status, **values, "seconds": self._seconds}
        self._write_json("summary.json", summary)
        return summary

    def _write_config(self, settings: Settings) -> None:
        """Write the configuration without the run's name, so that it can be run again."""
        flat = {key: value for key, value in settings.to_flat().items() if key != "run-name"}
        write_text(self.directory / "config.toml", tomli_w.dumps(flat))

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        write_text(self.directory / name, json.dumps(content, indent=2) + "\n")

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        with open(self.directory / name, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def _new_directory(settings: Settings) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    name = settings.run_name or f"{stamp}-{settings.strategy}-{settings.policy}-s{settings.seed}"
    root = make_directory(settings.output_path)
    for candidate in _candidates(name, unique=not settings.run_name):
        try:
            (root / candidate).mkdir()
        except FileExistsError:
            continue
        return root / candidate
    raise UserError(f"{root / name} exists already; choose another run-name or remove it.")


def _candidates(name: str, *, unique: bool) -> list[str]:
    """Return the names to try: two unnamed runs may start within a second."""
    return [name, *(f"{name}-{number}" for number in range(2, 100))] if unique else [name]


def _line(participant: Participant) -> dict[str, Any]:
    values = _kebab(asdict(participant))
    details: dict[str, float] = values.pop("details")
    return values | details


def _kebab(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "-"): value for key, value in values.items()}
