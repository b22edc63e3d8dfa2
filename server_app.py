"""The server's side of a run: prepare the clients, then rounds, and a record of both."""

from logging import INFO
from typing import Any

from flwr.app import Context
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp

from fedeas_app.checkpoint import Checkpoint, restoring
from fedeas_app.checkpointing import Checkpoints
from fedeas_app.client_evaluation import ClientEvaluation
from fedeas_app.errors import QuietUserError, UserError
from fedeas_app.evaluation import Evaluator
from fedeas_app.federation import StreamingGrid, connect
from fedeas_app.generators.federated.handout import Handout, pack
from fedeas_app.generators.federated.journal import begun
from fedeas_app.generators.federated.sharing import hand_out
from fedeas_app.latecomers import Latecomers
from fedeas_app.local.job import trainable
from fedeas_app.patience import Patience
from fedeas_app.preparation import Plan, prepare
from fedeas_app.privacy.spending import Spending
from fedeas_app.processes import cores
from fedeas_app.runs.record import RunRecord
from fedeas_app.runs.text import describe_plan, describe_summary
from fedeas_app.settings import Settings
from fedeas_app.strategies import make_strategy, require_enough_clients
from fedeas_app.task import Task, load_task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one configuration from start to end; a user's mistake ends it with one sentence."""
    try:
        settings = Settings.parse(context.run_config)
        record = RunRecord(settings)
        log(INFO, "The record of this run is %s", record.directory)
        with record.failure_noted(), record.tracked():
            run(StreamingGrid(grid), settings, record)
    except UserError as error:
        raise QuietUserError(str(error)) from None


def run(grid: Grid, settings: Settings, record: RunRecord) -> None:
    """Tell the story of a run."""
    with record.phase("load"):
        nodes = connect(grid, settings)
        require_enough_clients(settings, len(nodes))
        task = load_task(settings, len(nodes))
        record.add_manifest(task.manifest)

    generator = Handout(task.generator)
    if settings.trains_generator:
        with record.phase("generator"):
            generator, nodes = make_generator(grid, nodes, settings, record)
    if settings.generator_only:
        spending = Spending(settings, record.directory, goes_on=begun(record.directory))
        describe_summary(record.complete_without_rounds(**spending.summary()), record.directory)
        return

    with record.phase("prepare"):
        plan = prepare(grid, nodes, settings, record.add_client, generator.digest)
        plan.files = generator.files
        record.add_plan(plan, settings)
    describe_plan(plan, settings)

    describe_summary(go_through_rounds(grid, task, plan, settings, record), record.directory)


def go_through_rounds(
    grid: Grid, task: Task, plan: Plan, settings: Settings, record: RunRecord
) -> dict[str, Any]:
    """Train and evaluate round by round, from the last checkpoint on; return the summary."""
    strategy = make_strategy(settings, plan, trainable(task.model))
    evaluate = make_evaluator(task, grid, plan, settings)
    latecomers = Latecomers(grid, plan, record.add_latecomer)
    patience = Patience(settings)
    begin = record.checkpoint or Checkpoint(0, task.initial_arrays, strategy.state())
    with restoring(record.directory):
        strategy.restore(begin.state)
    checkpoints = Checkpoints(settings, record.directory)
    told = begin.server_round > 0 or begun(record.directory)
    spending = Spending(settings, record.directory, goes_on=told)
    ahead = range(begin.server_round + 1, settings.rounds + 1)
    for line in spending.outlook(map(strategy.cohort, ahead)):
        log(INFO, line)

    with record.phase("train"), record.last_round_noted(strategy.reports), checkpoints:
        arrays, metrics = begin.arrays, evaluate(begin.arrays)
        if begin.server_round == 0:
            record.add_round(0, metrics, None)
        for server_round in ahead:
            latecomers.welcome()
            spending.note(strategy.cohort(server_round))
            arrays, report = strategy.train(grid, server_round, arrays)
            metrics = evaluate(arrays) if report.participants else metrics
            record.add_round(server_round, metrics, report)
            patience.note(server_round, report)
            latecomers.renew(report.failures)
            if checkpoints.finished(server_round, arrays, strategy.state):
                strategy.checkpointed()
    strategy.forget()
    return record.complete(arrays, **spending.summary())


def make_generator(
    grid: Grid, nodes: list[int], settings: Settings, record: RunRecord
) -> tuple[Handout, list[int]]:
    """Have the clients train the generator and take it; return it, and who has it."""
    from fedeas_app.generators.federated.rounds import train_generator  # it loads diffusers

    generator = pack(train_generator(grid, nodes, settings, record.directory), settings)
    record.add_generator(generator.digest)
    return generator, hand_out(grid, nodes, generator, settings, record.directory)


def make_evaluator(
    task: Task, grid: Grid, plan: Plan, settings: Settings
) -> Evaluator | ClientEvaluation:
    """Return what evaluates the global model: the server, or the clients where it has no images."""
    if task.test is None:
        return ClientEvaluation(grid, plan.nodes, settings)
    return Evaluator(task.model, task.test, settings, cores())  # while it evaluates, workers wait
