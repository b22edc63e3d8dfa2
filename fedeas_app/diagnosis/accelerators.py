"""Devices: what torch, Ray and the configuration each see, and how many clients share them."""

import os

from fedeas_app.diagnosis.findings import Finding, examined, ok, problem, warning
from fedeas_app.diagnosis.torch_view import TorchView
from fedeas_app.errors import first_line
from fedeas_app.settings import Settings
from fedeas_app.wording import plural
from fedeas_app.workers import Workers, plan_workers

_CHOICE = "CUDA_VISIBLE_DEVICES"
_SHARE = (
    "The share (Ray's num-gpus) decides how many clients train at once; it is no limit of memory, "
    "of which each takes what it needs: where it runs out, set threads higher."
)


def look_at_devices(settings: Settings | None, torch: TorchView) -> list[Finding]:
    """Return who sees which device; the configuration's only where there is one."""
    seen, ray = gpus_of_ray()
    found = [_of_torch(torch, seen or 0), ray]
    if settings is None or torch.broken:
        return found
    device = examined("device", settings.device, lambda: _resolved(settings))
    if device.status == "problem":
        return [*found, device]
    clients = examined(
        "clients at once", "", lambda: at_once(settings, plan_workers(settings), torch, seen)
    )
    return [*found, device, clients]


def gpus_of_ray() -> tuple[int | None, Finding]:
    """Return how many GPUs Ray would find when it starts, which it need not for that.

    It asks the driver, and takes no more than the environment allows. None: it cannot be asked.
    """
    try:
        from ray._private.accelerators import get_accelerator_manager_for_resource

        manager = get_accelerator_manager_for_resource("GPU")
        count = manager.get_current_node_num_accelerators()
        allowed = manager.get_current_process_visible_accelerator_ids()
    except Exception as error:  # not installed, not public, or what a driver brings
        advice = f"It cannot be asked ({first_line(error)}); where it is installed, runs may work."
        return None, warning("Ray sees", "unknown", advice)
    seen = count if allowed is None else min(count, len(allowed))
    hidden = f", {count - seen} hidden by {_CHOICE}" if count > seen else ""
    return seen, ok("Ray sees", plural(seen, "GPU") + hidden)


def at_once(settings: Settings, workers: Workers, torch: TorchView, ray: int | None) -> Finding:
    """Say how many clients of a simulation train at once, and on what.

    Parameters
    ----------
    settings : Settings
        Its device is there.
    workers : Workers
    torch : TorchView
    ray : int or None
        How many GPUs Ray sees; None: unknown, and taken to be torch's.
    """
    subject, gpus = "clients at once", len(torch.gpus)
    on_gpu = gpus > 0 and settings.device not in ("cpu", "mps")
    count = min(workers.at_once(gpus if ray is None else ray), int(settings.num_clients))
    found = f"{count} in a simulation, each with {plural(workers.cpus, 'core')}"
    if not on_gpu:
        return ok(subject, found)
    if not workers.gpus:
        return _without_share(subject, found, settings)
    if not count:
        return problem(subject, found, _unseen(gpus))
    return ok(subject, f"{found}{_on_gpus(settings.device, workers.gpus)}", _SHARE)


def _on_gpus(device: str, share: float) -> str:
    """Say where workers are: Ray counts shares of all GPUs, also where one is named by number."""
    return f", all on {device}" if device.startswith("cuda:") else f" and {share:g} of a GPU"


def _without_share(subject: str, found: str, settings: Settings) -> Finding:
    """Ray hides all GPUs from workers that are promised none."""
    advice = (
        "nvidia-smi is not on the PATH, so that fedeas run asks Ray for no GPU, and clients do not "
        "see it; add its directory to PATH."
    )
    by_itself = settings.device == "auto"
    return (warning if by_itself else problem)(subject, f"{found} and no GPU", advice)


def _unseen(gpus: int) -> str:
    return (
        f"torch sees {plural(gpus, 'GPU')} and Ray none, so that no client would start; see that "
        f"{_CHOICE} and the driver's library (libnvidia-ml) are the same for both, or set device "
        "to cpu."
    )


def _of_torch(torch: TorchView, ray: int) -> Finding:
    subject, found = "torch sees", _devices(torch)
    if torch.broken:
        return warning(subject, "nothing", "torch cannot be imported; see versions.")
    if torch.complaint and not torch.gpus:
        return warning(subject, found, f"It says: {torch.complaint}.")
    if ray and not torch.gpus:
        return warning(subject, found, _unused(torch, ray))
    return ok(subject, found)


def _devices(torch: TorchView) -> str:
    gpus = [f"cuda:{k} {name}, {size / 1e9:.0f} GB" for k, (name, size) in enumerate(torch.gpus)]
    mps = ["mps"] if torch.mps else []
    chosen = os.environ.get(_CHOICE)
    note = "" if chosen is None else f" ({_CHOICE} is {chosen!r})"
    return ("; ".join([*gpus, *mps]) or "no GPU, the CPU alone") + note


def _unused(torch: TorchView, ray: int) -> str:
    seen = f"Ray sees {plural(ray, 'GPU')}, which torch cannot use"
    if torch.build == "CPU build":
        return f"{seen}: it is built for CPUs; install a build for CUDA."
    return f"{seen}; see that the driver is new enough for its {torch.build}."


def _resolved(settings: Settings) -> Finding:
    from fedeas_app.devices import resolve_device

    device = str(resolve_device(settings.device))
    return ok("device", device if device == settings.device else f"{device} ({settings.device})")
