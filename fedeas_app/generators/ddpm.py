"""Sampling from a class-conditional DDPM in diffusers' layout.

Ho et al., "Denoising Diffusion Probabilistic Models", arXiv 2006.11239. The network and the
schedulers are diffusers'; the loop is ours, because diffusers has no pipeline for a UNet with class
embeddings and because every image here has a seed of its own.
"""

import json
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedeas_app.devices import resolve_device
from fedeas_app.errors import UserError
from fedeas_app.files import file_sha256, sha256
from fedeas_app.generators.protocol import OnBatch

if TYPE_CHECKING:
    from diffusers import SchedulerMixin, UNet2DModel

DEFAULT_STEPS = {"ddpm": 1000, "ddim": 50, "dpm-solver++": 20}
_WEIGHTS = "unet/diffusion_pytorch_model.safetensors"


class Ddpm:
    """A generator directory, a sampler and a device.

    Parameters
    ----------
    directory : Path
        Holds ``unet/`` and ``scheduler/`` as diffusers saves them, weights in safetensors.
    name : str
        For messages.
    sampler : {"ddpm", "ddim", "dpm-solver++"}
    steps : int
        Denoising steps; 0 takes the sampler's default.
    batch_size : int
        Images made at a time.
    device : str
        As in the settings.

    Raises
    ------
    UserError
        The directory is missing or is no class-conditional DDPM.
    """

    def __init__(
        self, directory: Path, *, name: str, sampler: str, steps: int, batch_size: int, device: str
    ) -> None:
        self.name = name
        self._directory = directory
        self._sampler = sampler
        self._steps = steps or DEFAULT_STEPS[sampler]
        self._batch_size = batch_size
        self._device = device
        self._unet_config = self._read_config("unet/config.json")
        self._scheduler_config = self._read_config("scheduler/scheduler_config.json")
        self._check()

    @property
    def num_classes(self) -> int:
        """Number of labels the network was trained on."""
        return int(self._unet_config["num_class_embeds"])

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The classes on the card that training writes, or None where there is none."""
        try:
            card = json.loads((self._directory / "card.json").read_text(encoding="utf-8"))
            names = tuple(map(str, card["classes"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return names if len(names) == self.num_classes else None

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the images."""
        size = self._unet_config["sample_size"]
        height, width = (size, size) if isinstance(size, int) else size
        return int(height), int(width), int(self._unet_config["out_channels"])

    @cached_property
    def digest(self) -> str:
        """Hash of the weights, both configurations, the sampler, its steps and the precision."""
        parts = {
            "weights": _weights_digest(self._directory / _WEIGHTS),
            "unet": self._unet_config,
            "scheduler": self._scheduler_config,
            "sampler": [self._sampler, self._steps],
            "precision": "float32",
        }
        return sha256(json.dumps(parts, sort_keys=True).encode())

    @torch.inference_mode()
    def generate(
        self,
        labels: NDArray[np.int64],
        seeds: NDArray[np.int64],
        on_batch: OnBatch | None = None,
    ) -> NDArray[np.uint8]:
        """Make one image for each label; see :class:`fedeas_app.generators.Generator`.

        Where a batch does not fit into the device's memory, it and all later ones are halved.
        """
        device = resolve_device(self._device)
        unet = self._load_unet().to(device)
        images = np.empty((len(labels), *self.image_shape), np.uint8)
        start, size = 0, self._batch_size
        while start < len(labels):
            batch = slice(start, min(start + size, len(labels)))
            try:
                on_device = torch.from_numpy(labels[batch]).to(device)
                sample = self._denoise(unet, on_device, seeds[batch])
            except torch.OutOfMemoryError:
                size = self._halve(batch.stop - batch.start)
                continue
            images[batch] = self._to_pixels(sample)
            if on_batch is not None:
                on_batch(batch, images[batch])
            start = batch.stop
        del unet
        _release(device)
        return images

    def _halve(self, size: int) -> int:
        if size == 1:
            raise UserError(
                f"The generator {self.name} does not fit into the memory of the device even for "
                'one image at a time; free some of it, or set device = "cpu".'
            )
        return size // 2

    def _denoise(
        self, unet: "UNet2DModel", labels: torch.Tensor, seeds: NDArray[np.int64]
    ) -> torch.Tensor:
        """Walk one batch from noise to images in [-1, 1], shape (n, channels, height, width)."""
        from diffusers.utils.torch_utils import randn_tensor

        # One stream per image, consulted at every step: an image does not depend on its neighbours.
        streams = [torch.Generator().manual_seed(int(seed)) for seed in seeds]
        scheduler = self._make_scheduler()
        height, width, channels = self.image_shape
        shape = (len(streams), channels, height, width)
        sample = randn_tensor(shape, generator=streams, device=labels.device)
        sample = sample * scheduler.init_noise_sigma
        finite = torch.ones((), dtype=torch.bool, device=labels.device)
        for step in scheduler.timesteps:
            noisy = scheduler.scale_model_input(sample, step)
            noise = unet(noisy, step, class_labels=labels).sample
            # Looked at in every step: a scheduler that clips makes a black pixel of infinity.
            finite &= torch.isfinite(noise).all()
            sample = scheduler.step(noise, step, sample, generator=streams).prev_sample
        self._require(finite & torch.isfinite(sample).all())
        result: torch.Tensor = sample
        return result

    def _require(self, finite: torch.Tensor) -> None:
        if not bool(finite):
            raise UserError(
                f"The generator {self.name} gave values that are not finite ({self._sampler}, "
                f"{self._steps} steps, float32); use another sampler, more steps or another "
                "generator."
            )

    def _to_pixels(self, sample: torch.Tensor) -> NDArray[np.uint8]:
        pixels = ((sample.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)
        return pixels.permute(0, 2, 3, 1).cpu().numpy()

    def _make_scheduler(self) -> "SchedulerMixin":
        import diffusers

        if self._sampler == "dpm-solver++":
            scheduler = diffusers.DPMSolverMultistepScheduler.from_config(
                self._scheduler_config, **_dpm_solver_options(self._scheduler_config)
            )
        else:
            kinds = {"ddpm": diffusers.DDPMScheduler, "ddim": diffusers.DDIMScheduler}
            scheduler = kinds[self._sampler].from_config(self._scheduler_config)
        scheduler.set_timesteps(self._steps)
        if len(set(scheduler.timesteps.tolist())) < self._steps:  # the solver would divide by 0
            raise UserError(
                f"sampler-steps is {self._steps}, which is more than {self._sampler} can tell "
                f"apart with the generator {self.name}; use fewer, or 0 for "
                f"{DEFAULT_STEPS[self._sampler]}."
            )
        return scheduler

    def _load_unet(self) -> "UNet2DModel":
        from diffusers import UNet2DModel

        try:
            unet, report = UNet2DModel.from_pretrained(
                self._directory / "unet",
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
            )
            if report["missing_keys"]:  # diffusers would leave them without a value
                raise ValueError(f"{report['missing_keys'][0]} is not among them")
        except (OSError, ValueError, RuntimeError) as error:
            raise UserError(
                f"The weights of the generator {self.name} cannot be loaded from "
                f"{self._directory}: {str(error).splitlines()[0]}"
            ) from error
        return unet.eval()

    def _read_config(self, file: str) -> dict[str, Any]:
        path = self._directory / file
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(
                f"The generator {self.name} has no readable {path}; name a shipped generator "
                "(digits) or a directory made by `fedeas generator train`."
            ) from error
        if not isinstance(content, dict):
            raise UserError(f"The generator {self.name} has no JSON object in {path}.")
        return content

    def _check(self) -> None:
        classes = self._unet_config.get("num_class_embeds")
        if not isinstance(classes, int) or classes < 1:
            raise UserError(
                f"The generator {self.name} is not class-conditional (num_class_embeds is "
                f"{classes!r} in {self._directory}); train one with `fedeas generator train`."
            )
        try:
            _ = self.image_shape
        except (KeyError, TypeError, ValueError):
            raise UserError(
                f"The generator {self.name} does not say what images it makes (sample_size and "
                f"out_channels in {self._directory / 'unet/config.json'})."
            ) from None
        if not (self._directory / _WEIGHTS).is_file():
            raise UserError(
                f"The generator {self.name} has no weights at {self._directory / _WEIGHTS}."
            )
        trained = self._scheduler_config.get("num_train_timesteps", 1000)
        if self._steps > trained:
            raise UserError(
                f"sampler-steps is {self._steps}, but the generator {self.name} was trained with "
                f"{trained} steps; use at most that."
            )


def _release(device: torch.device) -> None:
    """Give the memory back: the classifier is trained on the same device."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _weights_digest(path: Path) -> str:
    status = path.stat()
    return _digest_of_version(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=8)
def _digest_of_version(path: Path, size: int, modified: int) -> str:
    """Hash a file once a process: a worker opens its generator anew for every client and round."""
    return file_sha256(path)


def _dpm_solver_options(config: dict[str, Any]) -> dict[str, Any]:
    """Return what makes DPM-Solver++ right for pixels and for a cosine schedule.

    The cosine schedule's log signal-to-noise ratio runs to minus infinity at the last step; without
    the clip the first step of the solver is garbage and the images are quietly unrecognisable.
    """
    options: dict[str, Any] = {"algorithm_type": "dpmsolver++", "thresholding": True}
    if config.get("beta_schedule") == "squaredcos_cap_v2":
        options["lambda_min_clipped"] = -5.1
    return options
