"""Smaller updates on the wire: half precision, or 8 bits a number, with error feedback.

    x_k = Δ_k + e_k          what the client would like to add to w_t
    C(x_k)                   what it sends: x_k in fewer bits
    e_k ← x_k − C(x_k)       what it keeps for its next round

Rounding alone would lose the same small steps again and again; with its error added to the next
update, none is lost but late (Karimireddy et al., arXiv 1901.09847, algorithm 2). Of an update in 8
bits each array has a scale of its own, its largest value over 127.

Only trainable parameters are compressed, and only on the way to the server: clients must all begin
a round at the same w_t.
"""

from collections.abc import Callable, Collection, Mapping

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from fedeas_app.arrays import decode

NONE = "none"
_RESIDUAL = "residual/"  # before a parameter's name, in what a client keeps
_LARGEST_HALF = np.float32(np.finfo(np.float16).max)
_LARGEST_BYTE = np.float32(127)
_SCALE_BYTES = 4

Kept = Mapping[str, torch.Tensor]
Floats = NDArray[np.float32]


def compressed(
    trained: ArrayRecord, sent: ArrayRecord, names: Collection[str], kept: Kept, method: str
) -> tuple[ArrayRecord, dict[str, torch.Tensor]]:
    """Return what leaves the client, and e_k for it to keep.

    Parameters
    ----------
    trained, sent : ArrayRecord
        w, and w_t as the server sent it.
    names : collection of str
        The trainable parameters.
    kept : mapping of str to tensor
        What the client kept of its last round.
    method : {"none", "fp16", "int8"}
    """
    if method == NONE:
        return trained, {}
    pack, unpack = _PACK[method], _UNPACK[method]
    arrays, residual = dict(trained), {}
    for name in names:
        x = trained[name].numpy() - sent[name].numpy()
        if _RESIDUAL + name in kept:
            x += kept[_RESIDUAL + name].cpu().numpy()
        packed = pack(x)
        arrays[name] = Array(packed)
        residual[_RESIDUAL + name] = torch.from_numpy(x - unpack(packed, x.shape))
    return ArrayRecord(arrays), residual


def without_residual(kept: Kept) -> Kept:
    """Return what the local algorithm itself kept."""
    return {name: value for name, value in kept.items() if not name.startswith(_RESIDUAL)}


def decompressed(
    arrays: ArrayRecord, sent: ArrayRecord, names: Collection[str], method: str
) -> ArrayRecord:
    """Return a client's model as it would have come uncompressed: w_t + C(x_k).

    Raises
    ------
    ValueError
        It is not what `compressed` makes of these parameters.
    """
    if method == NONE:
        return arrays
    unpack = _UNPACK[method]
    models = dict(arrays)
    for name in names:
        if name not in arrays:
            raise ValueError("the names of its arrays are not those that were sent")
        w_t = sent[name].numpy()
        try:
            models[name] = Array(w_t + unpack(decode(arrays[name]), w_t.shape))
        except ValueError as error:
            raise ValueError(f"{name} cannot be decompressed: {error}") from error
    return ArrayRecord(models)


def _to_half(x: Floats) -> NDArray[np.float16]:
    return np.clip(x, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16)


def _from_half(packed: NDArray[np.generic], shape: tuple[int, ...]) -> Floats:
    if packed.dtype != np.float16 or packed.shape != shape:
        raise ValueError(f"it is {packed.dtype}{list(packed.shape)}, not float16{list(shape)}")
    return packed.astype(np.float32)


def _to_bytes(x: Floats) -> NDArray[np.uint8]:
    """Return the scale's four bytes and a byte for each number."""
    scale = np.abs(x).max(initial=0).astype("<f4") / _LARGEST_BYTE
    steps = np.rint(x / scale) if scale else np.zeros_like(x)
    steps = np.clip(steps, -_LARGEST_BYTE, _LARGEST_BYTE).astype(np.int8)
    return np.concatenate([scale.reshape(1).view(np.uint8), steps.ravel().view(np.uint8)])


def _from_bytes(packed: NDArray[np.generic], shape: tuple[int, ...]) -> Floats:
    expected = (_SCALE_BYTES + int(np.prod(shape)),)
    if packed.dtype != np.uint8 or packed.shape != expected:
        raise ValueError(f"it is {packed.dtype}{list(packed.shape)}, not uint8{list(expected)}")
    scale = packed[:_SCALE_BYTES].copy().view("<f4")
    steps = packed[_SCALE_BYTES:].view(np.int8).reshape(shape)
    with np.errstate(invalid="ignore", over="ignore"):  # a bad scale shows as a value not finite
        values: Floats = steps.astype(np.float32) * scale
    return values


_PACK: dict[str, Callable[[Floats], NDArray[np.generic]]] = {"fp16": _to_half, "int8": _to_bytes}
_UNPACK: dict[str, Callable[[NDArray[np.generic], tuple[int, ...]], Floats]] = {
    "fp16": _from_half,
    "int8": _from_bytes,
}
