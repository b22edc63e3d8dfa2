"""The server's side: the rounds of the generator, from the first network to a directory."""

import shutil
from collections.abc import Iterator
from dataclasses import asdict
from logging import INFO
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord
from flwr.common.logger import log
from flwr.serverapp import Grid

from fedeas_app.checkpoint import Checkpoint, load_checkpoint, restoring
from fedeas_app.checkpointing import Checkpoints
from fedeas_app.data import classes_and_shape
from fedeas_app.devices import resolve_device
from fedeas_app.errors import UserError
from fedeas_app.files import make_directory
from fedeas_app.generators.card import Card, Origin
from fedeas_app.generators.federated.arrivals import Arrivals
from fedeas_app.generators.federated.average import RoundAverage
from fedeas_app.generators.federated.journal import Journal, begun
from fedeas_app.generators.federated.network import make_network
from fedeas_app.generators.federated.options import decisive, for_rounds, step_size
from fedeas_app.generators.federated.strategy import OfGenerators, make_strategy
from fedeas_app.generators.picture import write_picture
from fedeas_app.generators.sampling import NotFiniteError
from fedeas_app.generators.saving import library_versions, save_generator
from fedeas_app.generators.trainer import make_noise_scheduler
from fedeas_app.generators.workshop import GENERATOR, workshop_of
from fedeas_app.local.divergence import or_server_step
from fedeas_app.local.job import trainable
from fedeas_app.patience import Patience
from fedeas_app.preparation import ClientPlan, Plan, roll_call
from fedeas_app.privacy.spending import Spending
from fedeas_app.settings import Settings
from fedeas_app.strategies.base import draw_cohort
from fedeas_app.strategies.state import StrategyState


def train_generator(grid: Grid, nodes: list[int], settings: Settings, directory: Path) -> Path:
    """Have the clients train a generator together, and return its directory.

    While it is trained, its last checkpoint and pictures of what it draws lie beside it.

    Parameters
    ----------
    grid : Grid
    nodes : list of int
    settings : Settings
    directory : Path
        The run's. A training in it that was interrupted is gone on with, and one that is finished
        is left as it is.

    Raises
    ------
    UserError
        A client cannot say who it is, too many rounds in a row have no usable reply, or something
        cannot be written.
    """
    target = directory / GENERATOR
    if not target.is_dir():
        training = _Training(settings, roll_call(grid, nodes, settings), target)
        training.work(grid)
    shutil.rmtree(workshop_of(target), ignore_errors=True)
    return target


class _Training:
    """A training between two rounds: the global network, its mean over rounds, the strategy."""

    def __init__(self, settings: Settings, plan: Plan, target: Path) -> None:
        self._settings = settings
        self._plan = plan
        self._target = target
        self._place = make_directory(workshop_of(target))
        self._rounds = for_rounds(settings)
        self._classes, self._shape = classes_and_shape(settings)
        self._unet = make_network(settings, self._shape, len(self._classes))
        self._scheduler = make_noise_scheduler()
        self._average = RoundAverage(settings.generator_ema)
        self._strategy: OfGenerators = make_strategy(self._rounds, plan, trainable(self._unet))

    def work(self, grid: Grid) -> None:
        """Go through the rounds that are left, and save the generator."""
        begin = self._begin()
        arrays, strategy = begin.arrays, self._strategy
        directory, finished = self._target.parent, begin.server_round
        journal = Journal(directory, finished)
        patience, arrivals = Patience(self._settings), Arrivals(grid, self._plan, _nothing)
        spending = Spending(self._settings, directory, goes_on=finished > 0 or begun(directory))
        for line in spending.outlook(self._cohorts_after(finished)):
            log(INFO, line)
        with Checkpoints(self._settings, self._place) as checkpoints:
            for server_round in range(finished + 1, self._rounds.rounds + 1):
                arrivals.welcome()
                spending.note(strategy.cohort(server_round))
                arrays, report = strategy.train(grid, server_round, arrays)
                if report.participants:
                    self._average.add(arrays)
                journal.add(server_round, report)
                log(INFO, "Generator: round %s, loss %s", server_round, report.train_loss)
                patience.note(server_round, report)
                if checkpoints.finished(server_round, arrays, self._state):
                    strategy.checkpointed()
                self._draw_if_due(server_round)
            self._save(spending.summary())
        strategy.forget()

    def _save(self, privacy: dict[str, Any]) -> None:
        """Put the mean network, its card and the pictures in their directory.

        Raises
        ------
        UserError
            It cannot be written, or no round counted.
        """
        null_label = len(self._classes) if self._settings.generator_label_dropout else None
        card = Card(self._classes, null_label, self._settings.generator_unshuffle)
        samples = self._place / "samples"
        if not self._average:
            raise UserError(
                "None of the generator's rounds has had a usable reply, so that there is no "
                "generator; the log says why."
            )
        unet = self._averaged()
        history = self._history() | privacy
        save_generator(self._target, unet, self._scheduler, card, history, samples)

    def _begin(self) -> Checkpoint:
        """Return where to begin: at the last checkpoint, or with the first network."""
        first = Checkpoint(0, ArrayRecord(self._unet.state_dict()), self._strategy.state())
        begin = load_checkpoint(self._place) or first
        with restoring(self._place):
            self._strategy.restore(self._average.taken_from(begin.state))
        return begin

    def _cohorts_after(self, finished: int) -> Iterator[list[int]]:
        """Yield who is asked in each round to come, those of the classifier included."""
        yield from map(self._strategy.cohort, range(finished + 1, self._rounds.rounds + 1))
        if not self._settings.generator_only:
            for server_round in range(1, self._settings.rounds + 1):
                yield draw_cohort(self._settings, self._plan.nodes, server_round)

    def _state(self) -> StrategyState:
        return self._average.into(self._strategy.state())

    def _draw_if_due(self, server_round: int) -> None:
        every = self._settings.generator_samples_every
        last = server_round == self._rounds.rounds
        if every and self._average and (last or server_round % every == 0):
            self._draw(server_round)

    def _draw(self, server_round: int) -> None:
        unet = self._averaged().to(resolve_device(self._settings.device))
        path = self._place / "samples" / f"round-{server_round:05}.png"
        unshuffle = self._settings.generator_unshuffle
        try:
            write_picture(unet, self._scheduler, len(self._classes), unshuffle, path)
        except NotFiniteError as error:
            raise UserError(
                f"The generator diverged before round {server_round}: its numbers are not finite; "
                f"lower generator-learning-rate{or_server_step(self._rounds)}."
            ) from error

    def _averaged(self) -> Any:
        """Return the network with its mean over rounds."""
        self._unet.load_state_dict(self._average.arrays().to_torch_state_dict())
        return self._unet.eval()

    def _history(self) -> dict[str, Any]:
        """Return what the card tells a person: what was learnt, by whom, how, and with what."""
        settings = self._settings
        return {
            "image-shape": list(self._shape),
            "normalisation": "pixels / 127.5 - 1",
            "data": asdict(Origin.of(settings)) | {"split": "train", "images": self._plan.real},
            "parameters": sum(p.numel() for p in self._unet.parameters()),
            "federated": {
                "clients": len(self._plan.clients),
                "seed": settings.seed,
                "largest-step-size": step_size(settings, 1),
                **decisive(settings),
            },
            "versions": library_versions("torch", "diffusers", "flwr"),
        }


def _nothing(client: ClientPlan, plan: Plan) -> None:
    """Keep no record of who came later: they are recorded when they prepare."""
