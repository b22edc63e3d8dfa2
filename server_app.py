"""The server's side of a run: prepare the clients, then rounds, and a record of both."""

from logging import INFO

from flwr.app import Context
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp

from fedeas_app.checkpoint import Checkpoint, is_due
from fedeas_app.client_evaluation import ClientEvaluation
from fedeas_app.errors import QuietUserError, UserError
from fedeas_app.evaluation import Evaluator
from fedeas_app.federation import StreamingGrid, connect
from fedeas_app.latecomers import Latecomers
from fedeas_app.local.job import trainable
from fedeas_app.patience import Patience
from fedeas_app.preparation import Plan, prepare
from fedeas_app.runs.record import RunRecord
from fedeas_app.runs.text import describe_plan, describe_summary
from fedeas_app.settings import Settings
from fedeas_app.strategies import make_strategy
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
        task = load_task(settings, len(nodes))
        record.add_manifest(task.manifest)

    with record.phase("prepare"):
        plan = prepare(grid, nodes, settings, record.add_client, task.generator)
        record.add_plan(plan, settings)
    describe_plan(plan, settings)

    strategy = make_strategy(settings, plan, trainable(task.model))
    evaluate = make_evaluator(task, grid, plan, settings)
    latecomers = Latecomers(grid, plan, record.add_latecomer)
    patience = Patience(settings)
    begin = record.checkpoint or Checkpoint(0, task.initial_arrays, strategy.state())
    strategy.restore(begin.state)

    with record.phase("train"), record.last_round_noted(strategy.reports):
        arrays, metrics = begin.arrays, evaluate(begin.arrays)
        if begin.server_round == 0:
            record.add_round(0, metrics, None)
        for server_round in range(begin.server_round + 1, settings.rounds + 1):
            latecomers.welcome()
            arrays, report = strategy.train(grid, server_round, arrays)
            metrics = evaluate(arrays) if report.participants else metrics
            record.add_round(server_round, metrics, report)
            patience.note(server_round, report)
            if is_due(server_round, settings):
                Checkpoint(server_round, arrays, strategy.state()).save(record.directory)
                strategy.checkpointed()
    strategy.forget()
    describe_summary(record.complete(arrays), record.directory)


def make_evaluator(
    task: Task, grid: Grid, plan: Plan, settings: Settings
) -> Evaluator | ClientEvaluation:
    """Return what evaluates the global model: the server, or the clients where it has no images."""
    if task.test is None:
        return ClientEvaluation(grid, plan.nodes, settings)
    return Evaluator(task.model, task.test, settings)
