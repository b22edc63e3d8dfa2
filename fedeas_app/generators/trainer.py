"""A class-conditional DDPM in training, one step at a time.

Ho et al., "Denoising Diffusion Probabilistic Models", arXiv 2006.11239, Algorithm 1: a random step
t, noise ε, and the network learns ε from the noisy image, t and the label. A share of the labels is
replaced by the null label (Ho and Salimans, "Classifier-Free Diffusion Guidance", arXiv 2207.12598,
Algorithm 1), so that one network also learns to draw without a label.

Every step has random streams of its own, so that a training that is continued from a checkpoint
makes the same steps as one that was never interrupted, and several processes share out one batch.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from fedeas_app import seeds
from fedeas_app.data import Split
from fedeas_app.devices import compile_for, resolve_device, resolve_precision
from fedeas_app.errors import UserError
from fedeas_app.generators.network import fold, make_unet, preset_of

Arrays = dict[str, torch.Tensor]

# One part in so many of the steps (ours; the 5,000 of 800,000 of Ho et al.'s code would be none of
# the shortest training's 50): AdamW's first steps rest on the gradients of a few batches.
_WARMUP = 50
# Ho et al. average with 0.9999 over 800,000 steps; the memory of 0.999, 1,000 steps, suits ours.
_EMA_DECAY = 0.999
# Decay 1 - n^-0.75 until then: what diffusers' EMAModel advises for less than a million steps.
_EMA_POWER = 0.75
CLIP = 1.0  # largest norm of the gradient, as in Ho et al.'s code


@dataclass(frozen=True)
class Training:
    """How long and how to train; with the data, everything that decides the result.

    Attributes
    ----------
    preset : str
        Size of the network.
    steps : int
        Optimizer steps.
    batch_size : int
        Images in a step, all processes together.
    seed : int
    device : str
        As in the settings.
    label_dropout : float
        Share of the labels replaced by the null label; 0 makes a network without one.
    unshuffle : int
        The network sees blocks of this many pixels a side as channels.
    learning_rate : float
        0 takes the preset's.
    precision : {"auto", "float32", "bfloat16", "float16"}
        Of the arithmetic; ``auto`` is bfloat16 where a CUDA device has it, else float32.
    """

    preset: str = "tiny"
    steps: int = 3000
    batch_size: int = 128
    seed: int = 0
    device: str = "auto"
    label_dropout: float = 0.1
    unshuffle: int = 1
    learning_rate: float = 0.0
    precision: str = "auto"


class Trainer:
    """The network, its optimizer, the exponential mean of its weights, and how far they are.

    Parameters
    ----------
    split : Split
        The images to learn; never the test set.
    training : Training

    Raises
    ------
    UserError
        The preset does not fit the images, the precision does not fit the device, or the batch
        cannot be shared out.
    """

    def __init__(self, split: Split, training: Training) -> None:
        from diffusers.optimization import get_cosine_schedule_with_warmup
        from diffusers.training_utils import EMAModel

        self.step = 0
        self.training = training
        self.scheduler = make_noise_scheduler()
        self.split = split
        self._accelerator = _make_accelerator(training)
        self._require_shares()
        with seeds.global_torch_seed("generator", training.seed):
            self.unet = make_unet(
                split.image_shape, num_labels(split, training), training.preset, training.unshuffle
            )
        # β and ε are those of Kingma and Ba (arXiv 1412.6980), the weight decay is torch's.
        optimizer = torch.optim.AdamW(self.unet.parameters(), lr=learning_rate(training))
        self._rate = get_cosine_schedule_with_warmup(
            optimizer, training.steps // _WARMUP, training.steps
        )
        self._network, self._optimizer = self._accelerator.prepare(self.unet, optimizer)
        self._network = compile_for(self._accelerator.device, self._network)
        self._average = EMAModel(
            self.unet.parameters(),
            decay=_EMA_DECAY,
            use_ema_warmup=True,
            power=_EMA_POWER,
            foreach=True,
        )

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that writes."""
        return bool(self._accelerator.is_main_process)

    @property
    def device(self) -> torch.device:
        """Where this process trains."""
        device: torch.device = self._accelerator.device
        return device

    @property
    def images_per_step(self) -> int:
        """Images in a step, all processes together."""
        return min(self.training.batch_size, len(self.split.labels))

    def advance(self) -> torch.Tensor:
        """Take one optimizer step and return this process's loss, still on the device."""
        clean, noise, times, labels = self._batch(self.step)
        noisy = self.scheduler.add_noise(clean, noise, times)
        guess = self._network(noisy, times, class_labels=labels).sample
        loss = functional.mse_loss(guess.float(), noise)
        self._optimizer.zero_grad()
        self._accelerator.backward(loss)
        self._accelerator.clip_grad_norm_(self.unet.parameters(), CLIP)
        self._optimizer.step()
        if not self._accelerator.optimizer_step_was_skipped:  # float16 does where it overflows
            self._rate.step()
        self._average.step(self.unet.parameters())
        self.step += 1
        return loss.detach()

    def leave(self) -> None:
        """Leave the group of processes, where there is one."""
        self._accelerator.end_training()

    def averaged(self) -> Any:
        """Return a copy of the network with the exponential mean of its weights (EMA)."""
        unet = type(self.unet).from_config(self.unet.config)
        unet.load_state_dict(self.unet.state_dict())
        self._average.copy_to(unet.parameters())
        return unet.eval()

    def state(self) -> tuple[Arrays, str]:
        """Return all that the next step depends on: tensors, and the rest as JSON.

        On a CPU the tensors are the live ones: save or copy them before the next step.
        """
        optimizer = self._optimizer.state_dict()
        arrays = {f"unet.{name}": value for name, value in self.unet.state_dict().items()}
        arrays |= {f"ema.{i}": value for i, value in enumerate(self._average.shadow_params)}
        for index, moments in optimizer["state"].items():
            arrays |= {f"optimizer.{index}.{name}": value for name, value in moments.items()}
        scaler = self._accelerator.scaler
        rest = {
            "step": self.step,
            "ema-steps": self._average.optimization_step,
            "rate": self._rate.state_dict(),
            "groups": optimizer["param_groups"],
            "scaler": scaler.state_dict() if scaler is not None else None,
        }
        contiguous = {name: value.detach().cpu().contiguous() for name, value in arrays.items()}
        return contiguous, json.dumps(rest)

    def restore(self, arrays: Arrays, rest_json: str) -> None:
        """Continue from what :meth:`state` returned."""
        rest = json.loads(rest_json)
        parts = _by_prefix(arrays)
        self.unet.load_state_dict(parts["unet"])
        self._average.shadow_params = [
            parts["ema"][str(i)].to(self.device) for i in range(len(parts["ema"]))
        ]
        self._average.optimization_step = rest["ema-steps"]
        moments: dict[int, Arrays] = {}
        for place, value in parts.get("optimizer", {}).items():
            index, name = place.split(".")
            moments.setdefault(int(index), {})[name] = value
        self._optimizer.load_state_dict({"state": moments, "param_groups": rest["groups"]})
        self._rate.load_state_dict(rest["rate"])
        if rest["scaler"] is not None and self._accelerator.scaler is not None:
            self._accelerator.scaler.load_state_dict(rest["scaler"])
        self.step = rest["step"]

    def _require_shares(self) -> None:
        processes = self._accelerator.num_processes
        if self.device.type == "cuda" and processes > torch.cuda.device_count():
            raise UserError(
                f"processes is {processes}, but torch sees {torch.cuda.device_count()} CUDA "
                "devices on this machine; use at most a process for each."
            )
        if self.images_per_step % processes:
            raise UserError(
                f"A batch of {self.images_per_step} images cannot be shared out evenly to "
                f"{processes} processes; use a --batch-size that {processes} divides."
            )

    def _batch(self, step: int) -> tuple[torch.Tensor, ...]:
        """Return this process's share of a step: images in [-1, 1], noise, times and labels."""
        training, split = self.training, self.split
        rng = seeds.numpy_rng("generator-batch", training.seed, step)
        stream = seeds.torch_rng("generator-noise", training.seed, step)
        size = self.images_per_step
        chosen = np.sort(rng.choice(len(split.labels), size, replace=False))
        labels = split.labels[chosen].astype(np.int64)
        labels[rng.random(size) < training.label_dropout] = len(split.class_names)
        pixels = torch.from_numpy(np.ascontiguousarray(split.images[chosen]))
        clean = fold(pixels.permute(0, 3, 1, 2) / 127.5 - 1, training.unshuffle)
        noise = torch.randn(clean.shape, generator=stream)
        times = torch.randint(self.scheduler.config.num_train_timesteps, (size,), generator=stream)
        mine = slice(self._accelerator.process_index, None, self._accelerator.num_processes)
        share = (clean[mine], noise[mine], times[mine], torch.from_numpy(labels)[mine])
        return tuple(part.to(self.device, non_blocking=True) for part in share)


_MIXED = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


def make_noise_scheduler() -> Any:
    """Return the forward process: 1,000 steps, cosine schedule (Nichol and Dhariwal 2102.09672)."""
    from diffusers import DDPMScheduler

    return DDPMScheduler(num_train_timesteps=1000, beta_schedule="squaredcos_cap_v2")


def num_labels(split: Split, training: Training) -> int:
    """Return the labels of the network: the classes, and the null label where it has one."""
    return len(split.class_names) + (training.label_dropout > 0)


def learning_rate(training: Training) -> float:
    """Return the step size asked for, or the preset's."""
    return training.learning_rate or preset_of(training.preset).learning_rate


def _make_accelerator(training: Training) -> Any:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    device = resolve_device(training.device)
    precision = resolve_precision(training.precision, device)
    if precision == "float16" and device.type == "cpu":  # accelerate would take float32 in silence
        raise UserError(
            "precision is 'float16', which a CPU cannot train in; use bfloat16 or float32."
        )
    AcceleratorState._reset_state(reset_partial_state=True)  # of an earlier training here
    if device.index is not None:  # accelerate takes the current one
        torch.cuda.set_device(device)
    try:
        return Accelerator(cpu=device.type == "cpu", mixed_precision=_MIXED[precision])
    except ValueError as error:
        raise UserError(
            f"precision is {precision!r}, which device {training.device!r} cannot train in "
            f"({error}); use another --precision."
        ) from error


def _by_prefix(arrays: Arrays) -> dict[str, Arrays]:
    parts: dict[str, Arrays] = {}
    for name, value in arrays.items():
        prefix, _, rest = name.partition(".")
        parts.setdefault(prefix, {})[rest] = value
    return parts
