"""The server: FedAvg, and an evaluation after each round."""

import json
import time
from pathlib import Path

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from task import accuracy, make_net, test_batches

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds; write when each was over, and how accurate the model was."""
    config = dict(context.run_config)
    told: list[tuple[float, float]] = []
    net = make_net()

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        net.load_state_dict(arrays.to_torch_state_dict())
        right = accuracy(net, test_batches(config))
        told.append((time.perf_counter(), right))
        Path(config["out"]).write_text(json.dumps(told))
        return MetricRecord({"accuracy": right})

    FedAvg(fraction_evaluate=0.0).start(
        grid=grid,
        initial_arrays=ArrayRecord(net.state_dict()),
        num_rounds=config["rounds"],
        evaluate_fn=evaluate,
    )
