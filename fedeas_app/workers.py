"""How many clients of a simulation work at once on this machine, and what each is promised."""

import shutil
from dataclasses import dataclass

from fedeas_app.processes import cores
from fedeas_app.settings import Settings


@dataclass(frozen=True)
class Workers:
    """What Ray is told of the processes in which clients take turns.

    Attributes
    ----------
    available : int
        Cores that Ray may give away.
    cpus : int
        Cores of each worker.
    gpus : float
        The share of a GPU that each is promised. It decides how many start; nothing holds a worker
        to that share of the memory.
    """

    available: int
    cpus: int
    gpus: float

    def at_once(self, gpus_seen: int) -> int:
        """Return how many Flower starts, where Ray sees so many GPUs."""
        count = self.available // self.cpus
        return min(count, int(gpus_seen / self.gpus)) if self.gpus else count


def plan_workers(settings: Settings) -> Workers:
    """Return one worker for each ``threads`` cores, which share the GPUs."""
    available = cores()
    share = _gpu_share(settings, max(1, available // settings.threads))
    return Workers(available, min(settings.threads, available), share)


def _gpu_share(settings: Settings, workers: int) -> float:
    """Return the share of a GPU that each worker is promised, so that all workers fit."""
    if settings.device in ("cpu", "mps") or shutil.which("nvidia-smi") is None:
        return 0.0
    import torch

    gpus = torch.cuda.device_count()
    return min(1.0, round(gpus / workers, 4)) if gpus else 0.0
