"""Write a run down while it happens.

=====================  ==========================================================================
``config.toml``        the resolved configuration; ``fedeas run config.toml`` repeats the run
``manifest.json``      versions, machine, and digests of data, partition, generator, initial model
``generator/``         the generator, where the clients trained one
``generator.jsonl``    a line for each of its rounds: loss, weights, failures
``generator-copies.json``  how many of its images copy one of a client's
``generator.training/``  its last checkpoint and what it draws by then, until it is done
``preparation.jsonl``  a line for each client as it becomes ready
``plan.json``          the plan: totals, imbalance before and after, every client's part
``rounds.jsonl``       a line a round: accuracy, loss, every participant's n_k, OUI, score, weight,
                       drift, and what else the strategy found out about it; a round in which the
                       run failed has no accuracy
``checkpoint.safetensors``  what an interrupted run goes on from; gone when it is completed
``privacy.json``       with differential privacy: ε so far, and in how many rounds each client was
``model.safetensors``  the final model
``accuracy.png``       test accuracy over rounds
``summary.json``       final, best, AUC, seconds for each phase; or why the run failed
``tracking/``          the files of a tracker that keeps any, if one was chosen
=====================  ==========================================================================

``fedeas run``, on whose machine all simulated clients are, adds ``counts.json`` (images of each
class at each client), ``samples.png`` (some of what was generated) and ``flower.log``.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tomli_w
from flwr.app import ArrayRecord
from safetensors.torch import save

from fedeas_app.checkpoint import Checkpoint, load_checkpoint
from fedeas_app.errors import UserError
from fedeas_app.evaluation import area_under_curve
from fedeas_app.files import make_directory, sweep, told, write_bytes, write_text
from fedeas_app.preparation import ClientPlan, Plan
from fedeas_app.runs.resuming import (
    CHECKPOINT,
    continued,
    cut_back,
    lock,
    require_resumable,
    unlock,
    with_generator,
)
from fedeas_app.runs.tracking import Tracking, require_tracker, tracked
from fedeas_app.settings import Settings
from fedeas_app.strategies.report import Participant, RoundReport


class RunRecord:
    """The record of one run.

    Parameters
    ----------
    settings : Settings
        With ``resume`` the record of that name is gone on with, from its last checkpoint.

    Attributes
    ----------
    directory : Path
    checkpoint : Checkpoint or None
        Where the run goes on; None where it begins.

    Raises
    ------
    UserError
        The directory cannot be made, a run of this name is there already, or there is none to go on
        with; or the tracker is not installed.
    """

    def __init__(self, settings: Settings) -> None:
        require_tracker(settings.tracker)
        self.checkpoint: Checkpoint | None = None
        self._tracker = settings.tracker
        self._tracking = Tracking()
        self._seconds: dict[str, float] = {}
        self._accuracies: list[float] = []
        self._round_started = time.perf_counter()
        self._failures = 0
        self.directory = self._open(settings)
        self._write_config(settings)
        self._summarise("running")

    def _open(self, settings: Settings) -> Path:
        """Make the run's directory, or take up what is in it; it is this process's from then on."""
        if not settings.resume:
            directory = _new_directory(settings)
            self._lock = lock(directory)
            return directory
        directory = settings.output_path / settings.run_name
        before = require_resumable(directory, settings)
        self._lock = lock(directory)
        sweep(directory)
        self.checkpoint = load_checkpoint(directory)
        finished = self.checkpoint.server_round if self.checkpoint else 0
        rounds = cut_back(directory, finished)[1:]
        self._accuracies = [line["accuracy"] for line in rounds]
        self._failures = sum(len(line["failures"]) for line in rounds)
        self._seconds = before.get("seconds", {}) | {"train": sum(r["seconds"] for r in rounds)}
        return directory

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time one phase of the run; a first round starts with its phase."""
        started = self._round_started = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - started
            self._summarise("running")

    def add_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Keep what the run was made of.

        Raises
        ------
        UserError
            The run goes on, and it was made of something else.
        """
        begun = (self.directory / "generator.jsonl").is_file()
        if self.checkpoint is not None or begun:
            finished = self.checkpoint.server_round if self.checkpoint else 0
            manifest = continued(self.directory, finished, manifest)
        self._write_json("manifest.json", manifest)

    def add_generator(self, digest: str) -> None:
        """Keep which generator the clients have trained.

        Raises
        ------
        UserError
            The run goes on, and had trained another one.
        """
        self._write_json("manifest.json", with_generator(self.directory, digest))

    def add_client(self, client: ClientPlan) -> None:
        """Keep that a client is ready; if the run goes on, that is known."""
        if self.checkpoint is None:
            self._append("preparation.jsonl", _kebab(asdict(client)))

    def add_plan(self, plan: Plan, settings: Settings) -> None:
        """Keep the plan, and what it resolved of the settings.

        If the run goes on, its plan stays: it says what was made, where now all is in the caches.
        """
        resolved = plan.resolve(settings)
        if self.checkpoint is None:
            self._write_json("plan.json", plan.to_dict())
        self._write_config(resolved)
        self._tracking.configure(resolved)

    def add_latecomer(self, client: ClientPlan, plan: Plan) -> None:
        """Keep that a client is ready that came, or came back, during the rounds."""
        self._append("preparation.jsonl", _kebab(asdict(client)))
        self._write_json("plan.json", plan.to_dict())

    def add_round(
        self, server_round: int, metrics: Mapping[str, float], report: RoundReport | None
    ) -> None:
        """Keep a round's result; round 0 is the initial model, with no report."""
        if report is not None:
            self._accuracies.append(metrics["accuracy"])
            self._failures += len(report.failures)
        self._append_round(server_round, metrics, report)

    @contextmanager
    def last_round_noted(self, reports: Mapping[int, RoundReport]) -> Iterator[None]:
        """Keep who took part and who failed in the round in which the run ends early, if it does.

        Parameters
        ----------
        reports : mapping
            What the strategy says of its rounds, by their numbers; it grows meanwhile.
        """
        try:
            yield
        except BaseException:
            broken = len(self._accuracies) + 1
            if broken in reports:
                self._append_round(broken, {}, reports[broken])
            raise

    def complete(self, arrays: ArrayRecord, **more: Any) -> dict[str, Any]:
        """Keep the final model, the plot and the summary, and return the summary.

        `more` is what else the summary is to say.
        """
        from fedeas_app.figures.accuracy import plot_accuracy

        with told(self.directory):
            write_bytes(self.directory / "model.safetensors", save(arrays.to_torch_state_dict()))
            plot_accuracy(self._accuracies, self.directory / "accuracy.png")
            (self.directory / CHECKPOINT).unlink(missing_ok=True)
        summary = self._summarise(
            "completed",
            final=self._accuracies[-1],
            best=max(self._accuracies),
            auc=area_under_curve(self._accuracies),
            failures=self._failures,
            **more,
        )
        self._tracking.complete(summary, len(self._accuracies))
        unlock(self._lock)
        return summary

    def complete_without_rounds(self, **more: Any) -> dict[str, Any]:
        """Note that a run that was to train a generator alone has done so, and what else to say."""
        summary = self._summarise("completed", **more)
        unlock(self._lock)
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
            with suppress(UserError):  # no room for the reason; it is raised all the same
                self._summarise("failed", reason=reason)
            raise
        finally:
            unlock(self._lock)

    def _summarise(self, status: str, **values: Any) -> dict[str, Any]:
        summary = {"status": status, **values, "seconds": self._seconds}
        self._write_json("summary.json", summary)
        return summary

    def _write_config(self, settings: Settings) -> None:
        """Write the configuration without the run's name, so that it can be run again."""
        own = ("run-name", "resume")
        flat = {key: value for key, value in settings.to_flat().items() if key not in own}
        with told(self.directory):
            write_text(self.directory / "config.toml", tomli_w.dumps(flat))

    def _append_round(
        self, server_round: int, metrics: Mapping[str, float], report: RoundReport | None
    ) -> None:
        now = time.perf_counter()
        line: dict[str, Any] = {"round": server_round, **metrics}
        line["seconds"] = now - self._round_started
        self._round_started = now
        if report is not None:
            line |= _told(report)
        self._append("rounds.jsonl", line)
        self._tracking.add_round(line)

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        with told(self.directory):
            write_text(self.directory / name, json.dumps(content, indent=2) + "\n")

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        with told(self.directory), open(self.directory / name, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
            stream.flush()
            os.fsync(stream.fileno())  # before a checkpoint that is of this round


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


def _told(report: RoundReport) -> dict[str, Any]:
    """Return what a line says of a round's clients; where none counts, there are no means."""
    means = {
        "train-loss": report.train_loss,
        "effective-clients": report.effective_clients,
        "drift": report.drift,
    }
    return (means if report.participants else {}) | {
        "participants": [_line(p) for p in report.participants],
        "failures": {str(partition): text for partition, text in report.failures.items()},
    }


def _line(participant: Participant) -> dict[str, Any]:
    values = _kebab(asdict(participant))
    details: dict[str, float] = values.pop("details")
    return values | details


def _kebab(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "-"): value for key, value in values.items()}
