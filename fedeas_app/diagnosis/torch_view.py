"""What torch sees of this machine, or why it cannot be asked."""

import warnings
from dataclasses import dataclass
from typing import Any

from fedeas_app.errors import first_line


@dataclass(frozen=True)
class TorchView:
    """What torch says.

    Attributes
    ----------
    broken : str
        Why it cannot be imported; empty where it can.
    build : str
        What it was built for.
    gpus : tuple of (str, int)
        Each CUDA device's name and bytes of memory.
    mps : bool
        Whether there is Apple's GPU.
    complaint : str
        What it warns of when it is asked for CUDA devices.
    """

    broken: str = ""
    build: str = ""
    gpus: tuple[tuple[str, int], ...] = ()
    mps: bool = False
    complaint: str = ""


def ask_torch() -> TorchView:
    """Import torch and ask it, whatever state it is in."""
    try:
        import torch
    except Exception as error:  # an ImportError, an OSError of a library, whatever it does
        return TorchView(broken=first_line(error))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gpus, complaint = _gpus(torch)
    said = [first_line(one.message) for one in caught if isinstance(one.message, Warning)]
    return TorchView(
        build=_build(torch),
        gpus=gpus,
        mps=torch.backends.mps.is_available(),
        complaint=complaint or next(iter(said), ""),
    )


def _gpus(torch: Any) -> tuple[tuple[tuple[str, int], ...], str]:
    """Return the devices, and why they cannot be had where that fails."""
    try:
        if not torch.cuda.is_available():
            return (), ""
        found = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
        return tuple((gpu.name, int(gpu.total_memory)) for gpu in found), ""
    except RuntimeError as error:  # a driver that does not fit, a device that is lost
        return (), first_line(error)


def _build(torch: Any) -> str:
    if torch.version.cuda:
        return f"CUDA {torch.version.cuda} build"
    return f"ROCm {torch.version.hip} build" if torch.version.hip else "CPU build"
