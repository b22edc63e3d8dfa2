"""A run's numbers in a tracker, beside its record.

The trackers are accelerate's, without its ``Accelerator``, which would also choose a device. All
that is passed on is the configuration, and what ``rounds.jsonl`` and ``summary.json`` say of a run
as a whole; nothing of a single client.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from logging import WARNING
from pathlib import Path
from typing import Any, Final

from flwr.common.logger import log

from fedeas_app.errors import UserError, first_line
from fedeas_app.settings import Settings, Value

PROJECT: Final = "fedeas"
FILES: Final = "tracking"  # in the run's directory
NONE: Final = "none"

_OF_A_ROUND: Final = ("accuracy", "loss", "train-loss", "effective-clients", "drift", "seconds")
_OF_A_RUN: Final = ("final", "best", "auc")


class Tracking:
    """Passes a run's numbers on to a tracker; a tracker that fails ends its own part, not the run.

    Parameters
    ----------
    tracker : accelerate.tracking.GeneralTracker or None
        None: nobody is told.
    """

    def __init__(self, tracker: Any | None = None) -> None:
        self._tracker = tracker

    def configure(self, settings: Settings) -> None:
        """Pass on every key with its value."""
        self._tell(lambda tracker: _configure(tracker, settings.to_flat()))

    def add_round(self, line: Mapping[str, Any]) -> None:
        """Pass on what a line of ``rounds.jsonl`` says of the round as a whole."""
        values = _numbers(line, _OF_A_ROUND)
        if "failures" in line:
            values["failures"] = len(line["failures"])
        self._tell(lambda tracker: tracker.log(values, step=line["round"]))

    def complete(self, summary: Mapping[str, Any], rounds: int) -> None:
        """Pass on the result."""
        values = _numbers(summary, _OF_A_RUN)
        self._tell(lambda tracker: tracker.log(values, step=rounds))

    def finish(self) -> None:
        """Let the tracker write down what it still holds."""
        self._tell(lambda tracker: tracker.finish())
        self._tracker = None

    def _tell(self, what: Callable[[Any], None]) -> None:
        tracker = self._tracker
        if tracker is None:
            return
        try:
            what(tracker)
        except Exception as error:  # whatever its network brings
            self._give_up(tracker, first_line(error))

    def _give_up(self, tracker: Any, reason: str) -> None:
        """Go on without the tracker, which has tried again by itself, perhaps for minutes."""
        self._tracker = None
        log(WARNING, "The tracker failed and is told no more (the record is whole): %s.", reason)
        with suppress(Exception):
            tracker.finish()


@contextmanager
def tracked(name: str, directory: Path) -> Iterator[Tracking]:
    """Start a tracker for the run of a directory, and finish it however the run ends.

    Parameters
    ----------
    name : str
        The key ``tracker``.
    directory : Path
        The run's; a tracker that keeps files gets a directory in it.

    Raises
    ------
    UserError
        The tracker is not installed, or cannot be started.
    """
    require_tracker(name)
    tracking = Tracking(None if name == NONE else _start(name, directory))
    try:
        yield tracking
    finally:
        tracking.finish()


def require_tracker(name: str) -> None:
    """Refuse a tracker whose package is not installed, without loading any.

    Raises
    ------
    UserError
        Names the package.
    """
    if name != NONE and not _is_installed(name):
        package = name.replace("_", "-")
        raise UserError(
            f"tracker is {name!r}, but its package is not installed; install it with "
            f"`pip install {package}`, or set tracker to {NONE!r}."
        )


def _is_installed(module: str) -> bool:
    spec = find_spec(module)
    return spec is not None and spec.origin is not None  # else a mere directory, as wandb makes one


def _start(name: str, directory: Path) -> Any:
    from accelerate import PartialState

    try:
        PartialState(cpu=True)  # accelerate's logger wants one; this one touches no device
        tracker = _make(name, directory)
        tracker.start()
    except Exception as error:
        raise UserError(
            f"The tracker {name!r} cannot be started: {first_line(error)}; set it up, or set "
            f"tracker to {NONE!r}."
        ) from error
    return tracker


def _make(name: str, directory: Path) -> Any:
    """Make a tracker that knows the run's name and keeps its files in the run's directory."""
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS

    kind = LOGGER_TYPE_TO_CLASS[name]
    files = directory / FILES
    files.mkdir()
    if name == "tensorboard":  # shows a run by its path
        return kind("", files)
    if kind.requires_logging_directory:
        return kind(directory.name, files)
    if name == "mlflow":  # which else writes where it is started: a directory that Flower removes
        os.environ.setdefault("MLFLOW_TRACKING_URI", f"sqlite:///{files / 'mlflow.db'}")
    return kind(PROJECT, **_options(name, directory.name, files))


def _configure(tracker: Any, values: dict[str, Value]) -> None:
    """Pass on the configuration of the run itself.

    In TensorBoard accelerate would make a run of its own of it, named after the time in seconds.
    """
    if tracker.name != "tensorboard":
        tracker.store_init_configuration(values)
        return
    from torch.utils.tensorboard.summary import hparams

    for summary in hparams(values, {}):
        tracker.writer.file_writer.add_summary(summary)


def _options(name: str, run: str, files: Path) -> dict[str, Any]:
    """Return what a tracker's own library takes to name the run and to place its files."""
    options: dict[str, dict[str, Any]] = {
        "clearml": {"task_name": run, "auto_connect_frameworks": False},
        "dvclive": {"dir": str(files), "dvcyaml": None, "save_dvc_exp": False},
        "mlflow": {"run_name": run},
        "swanlab": {"experiment_name": run, "logdir": str(files)},
        "trackio": {"name": run},
        "wandb": {"name": run, "dir": str(files)},
    }
    return options.get(name, {})


def _numbers(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, float]:
    return {name: values[name] for name in names if values.get(name) is not None}
