"""The device that a setting names, and what torch may use of it."""

import gc
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from typing import TypeVar, cast

import torch

from fedeas_app.errors import PublicError, UserError

Network = TypeVar("Network", bound=torch.nn.Module)

_WORTH_COMPILING = 5_000_000  # parameters
_PRECISIONS = ("float32", "bfloat16", "float16")


def resolve_device(name: str) -> torch.device:
    """Turn ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps`` into a device that is there.

    Raises
    ------
    UserError
        The device asked for is not on this machine.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = _parse(name)
    if device is None or not _present(device):
        raise UserError(
            f"device is {name!r}, but torch sees {_seen()} on this machine; "
            'use device = "auto" or one that is there.'
        )
    return device


def resolve_precision(name: str, device: torch.device) -> str:
    """Turn ``auto`` into the precision that a device is fast at without losing quality.

    Raises
    ------
    UserError
        There is none of that name.
    """
    if name in _PRECISIONS:
        return name
    if name != "auto":
        raise UserError(f"precision is {name!r}; auto, {', '.join(_PRECISIONS)} are allowed.")
    fast = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bfloat16" if fast else "float32"


def pixel_environment(name: str) -> str:
    """Say what can change the last bit of a result: the kind of device and library versions."""
    libraries = (f"{library}-{version(library)}" for library in ("torch", "diffusers"))
    return " ".join([resolve_device(name).type, *libraries])


def on_device(network: Network, device: torch.device) -> Network:
    """Move a network to a device, in the memory order that its convolutions like best there.

    That is with channels last, but only where it is compiled: otherwise group normalisation turns
    every image around and back.
    """
    network = network.to(device)
    if _compiles(network, device):
        network = network.to(memory_format=torch.channels_last)
    return network


def release(device: torch.device) -> None:
    """Give the memory of what is no longer used back to the device.

    Compiled code stays: it holds no weights, and the next client's network runs through it.
    """
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Tell want of memory, on a device or in the machine, from other errors."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


@contextmanager
def within_memory(advice: str) -> Iterator[None]:
    """Say in one sentence that something does not fit into memory, and what to do.

    Raises
    ------
    PublicError
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise PublicError(f"There is not enough memory; {advice}.") from error


def compile_for(device: torch.device, network: Network) -> Network:
    """Return the network compiled where that pays: on CUDA, and large enough to be worth a minute.

    It depends on the network and the machine alone, so that the same images come out of every
    request. ``TORCHDYNAMO_DISABLE=1`` switches it off.
    """
    return cast(Network, torch.compile(network)) if _compiles(network, device) else network


def _compiles(network: torch.nn.Module, device: torch.device) -> bool:
    size = sum(parameter.numel() for parameter in network.parameters())
    return device.type == "cuda" and size >= _WORTH_COMPILING and _can_compile()


def _can_compile() -> bool:
    """Whether what torch.compile needs for CUDA is here: Triton and a C compiler."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    return bool(compiler) and find_spec("triton") is not None


@contextmanager
def repeatable(threads: int) -> Iterator[None]:
    """Fix what changes the bits of a result: the CPU threads and cuDNN's choice of kernel."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        # Left out, `enabled` is False: flags() would turn cuDNN off.
        with torch.backends.cudnn.flags(
            enabled=torch.backends.cudnn.enabled, benchmark=False, deterministic=True
        ):
            yield
    finally:
        torch.set_num_threads(before)


def _parse(name: str) -> torch.device | None:
    """Return the device of that very name: torch keeps 8 bits of an index, cuda:255 is cuda."""
    try:
        device = torch.device(name)
    except RuntimeError:
        return None
    return device if str(device) == name else None


def _present(device: torch.device) -> bool:
    if device.type == "cuda":
        return (device.index or 0) < torch.cuda.device_count()
    return device.type == "cpu" or torch.backends.mps.is_available()


def _seen() -> str:
    count = torch.cuda.device_count()
    others = [f"cuda:{index}" for index in range(count)]
    others += ["mps"] if torch.backends.mps.is_available() else []
    return ", ".join(["cpu", *others]) + ("" if count else " and no CUDA device")
