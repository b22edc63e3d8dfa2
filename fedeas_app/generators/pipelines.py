"""A pretrained diffusers pipeline as a generator: told a class by its id, or in a prompt."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedeas_app.data.own import classes_and_shape
from fedeas_app.devices import release, resolve_device, resolve_precision
from fedeas_app.errors import UserError, first_line
from fedeas_app.files import sha256
from fedeas_app.generators.batches import find_size, in_batches, rows_of, too_small
from fedeas_app.generators.pipeline_classes import class_ids, prompts, words
from fedeas_app.generators.pipeline_parts import SCHEDULER, PipelineDirectory
from fedeas_app.generators.pipeline_sampler import OWN, Watch, make_scheduler, require_steps
from fedeas_app.generators.protocol import OnBatch
from fedeas_app.generators.sampling import DEFAULT_STEPS
from fedeas_app.generators.schedulers import describe_scheduler
from fedeas_app.settings import Settings

_ON_CPU = 8  # such a network is large: more at a time are not faster, and a stop loses more
_TRIAL_STEPS = 2
_DIT_NULL = 1000  # diffusers' DiTPipeline guides with this label, whatever the network
_LUMA = (0.299, 0.587, 0.114)  # of ITU-R BT.601, as the grey images of the datasets are made


class Pipeline:
    """A pretrained pipeline that makes images of the dataset's classes.

    Its images are brought to the size and the channels of the dataset's, with the filter that also
    resizes those.

    Parameters
    ----------
    directory : Path
        In diffusers' layout, weights in safetensors.
    settings : Settings
        The dataset, and the keys from ``generator`` to ``generation_batch_size``, are used.

    Raises
    ------
    UserError
        The directory is no such pipeline, or cannot be asked for these classes or sampled so.
    """

    def __init__(self, directory: Path, settings: Settings) -> None:
        self.name = repr(settings.generator)
        self._settings = settings
        self._directory = PipelineDirectory(directory, self.name)
        names, self.image_shape = classes_and_shape(settings)
        self.class_names: tuple[str, ...] | None = names
        self.num_classes = len(names)
        self._meanings = self._translate(names)
        self._guidance = self._choose_guidance()
        self._steps = settings.sampler_steps or self._default_steps()
        self._require_sampler()

    @cached_property
    def digest(self) -> str:
        """Hash of the files, the prompts or ids, the sampling, the image shape and libraries."""
        libraries = ["diffusers"] + ["transformers"] * self._directory.uses_transformers
        parts = {
            "files": self._directory.digests(),
            "pipeline": self._directory.pipeline_class.__name__,
            "classes": self._meanings,
            "scheduler": describe_scheduler(self._make_scheduler()),
            "steps": self._steps,
            "guidance": self._guidance,
            "precision": self._dtype,
            "image": self.image_shape,
            "libraries": {library: version(library) for library in libraries},
        }
        return sha256(json.dumps(parts, sort_keys=True, default=str).encode())

    @property
    def how(self) -> str:
        """Sampler, steps and precision, for messages."""
        return f"{self._settings.sampler}, {self._steps} steps, {self._dtype}"

    def generate(
        self,
        labels: NDArray[np.int64],
        seeds: NDArray[np.int64],
        on_batch: OnBatch | None = None,
    ) -> NDArray[np.uint8]:
        """Make one image for each label; see :class:`fedeas_app.generators.Generator`.

        Where a batch does not fit into the device's memory, it and all later ones are halved.
        """
        images = np.empty((len(labels), *self.image_shape), np.uint8)
        if not len(labels):
            return images
        try:
            for batch, made in self._draw(labels, seeds):
                images[batch] = made
                if on_batch is not None:
                    on_batch(batch, images[batch])
        except torch.OutOfMemoryError as error:  # the networks alone: batches are halved
            raise too_small(self.name) from error
        finally:
            release(self._device)
        return images

    def _draw(
        self, labels: NDArray[np.int64], seeds: NDArray[np.int64]
    ) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yield every batch; nothing but this, or an error that ended it, holds the pipeline."""
        pipeline = self._directory.load(getattr(torch, self._dtype))
        pipeline.scheduler = self._make_scheduler()
        pipeline = pipeline.to(self._device)
        size = self._settings.generation_batch_size or self._find_size(pipeline)
        watch = Watch(pipeline.scheduler)

        def make(batch: slice, size: int) -> torch.Tensor:
            rows = rows_of(batch, size, len(labels), self._device)
            images = self._sample(pipeline, labels[rows], seeds[rows], watch)
            return to_pixels(images, self.image_shape)[: batch.stop - batch.start]

        yield from in_batches(make, len(labels), size, self.name)

    def _sample(
        self, pipeline: Any, labels: NDArray[np.int64], seeds: NDArray[np.int64], watch: Watch
    ) -> torch.Tensor:
        """Make one batch and look whether the images are good ones."""
        with self._require_own_noise():
            output = self._call(pipeline, labels, seeds, self._steps)
        self._require_unchecked(output, labels)
        images = torch.from_numpy(np.asarray(output.images))
        self._require_finite(images, watch.first_bad_step())
        return images

    def _call(
        self, pipeline: Any, labels: NDArray[np.int64], seeds: NDArray[np.int64], steps: int
    ) -> Any:
        """Call the pipeline; every image has a random stream of its own, on whatever device."""
        request: dict[str, Any] = {
            self._directory.condition: [self._meanings[label] for label in labels],
            "generator": [torch.Generator().manual_seed(int(seed)) for seed in seeds],
            "num_inference_steps": steps,
            "guidance_scale": self._guidance,
            "batch_size": len(labels),
            # Of the formats that keep NaN the one that all pipelines give alike: [0, 1], NHWC.
            "output_type": "np",
        }
        known = self._directory.parameters
        try:
            return pipeline(**{key: value for key, value in request.items() if key in known})
        except (TypeError, ValueError) as error:
            raise UserError(
                f"The generator {self.name} cannot be asked for images by its classes alone "
                f"({first_line(error)}); name another pipeline."
            ) from error

    def _find_size(self, pipeline: Any) -> int:
        if self._device.type != "cuda":
            return _ON_CPU
        return find_size(self._device, partial(self._try, pipeline), self.digest)

    def _try(self, pipeline: Any, count: int) -> None:
        blank = np.zeros(count, np.int64)
        self._call(pipeline, blank, blank, min(self._steps, _TRIAL_STEPS))

    @property
    def _device(self) -> torch.device:
        return resolve_device(self._settings.device)

    @property
    def _dtype(self) -> str:
        return resolve_precision(self._settings.generation_precision, self._device)

    def _make_scheduler(self) -> Any:
        own = self._directory.load_part(SCHEDULER)
        return make_scheduler(own, self._settings.sampler, self.name)

    def _translate(self, class_names: tuple[str, ...]) -> Sequence[int | str]:
        """Return what the pipeline is told for each class."""
        names = words(self._settings, class_names)
        if self._directory.condition == "prompt":
            return prompts(self._settings.generator_prompt, names)
        return class_ids(
            self.name,
            names,
            self._directory.id2label,
            self._directory.num_classes,
            numbers=bool(self._settings.generator_classes),
        )

    def _default_steps(self) -> int:
        sampler = self._settings.sampler
        if sampler != OWN:
            return DEFAULT_STEPS[sampler]
        return int(self._directory.parameters["num_inference_steps"].default)

    def _choose_guidance(self) -> float | None:
        """Return the guidance asked for or the pipeline's own; None where it has none."""
        asked = self._settings.guidance_scale
        known = self._directory.parameters.get("guidance_scale")
        if known is None and asked not in (0, 1):
            raise UserError(
                f"guidance-scale is {asked:g}, but the generator {self.name} cannot be guided; set "
                "it to 0."
            )
        if known is None:
            return None
        scale = float(asked or known.default)
        self._require_null_label(scale)
        return scale

    def _require_null_label(self, guidance: float) -> None:
        is_dit = self._directory.pipeline_class.__name__ == "DiTPipeline"
        if is_dit and guidance > 1 and self._directory.num_classes != _DIT_NULL:
            raise UserError(
                f"The generator {self.name} would be guided with {guidance:g}, but diffusers can "
                f"guide a DiT only where it knows {_DIT_NULL} classes, not "
                f"{self._directory.num_classes}; set guidance-scale = 1."
            )

    def _require_sampler(self) -> None:
        scheduler, sampler = self._make_scheduler(), self._settings.sampler
        require_steps(scheduler, self._steps, sampler, self.name)
        # Pipelines that have this method hand their random streams on to every step.
        if sampler == "ddpm" and not hasattr(
            self._directory.pipeline_class, "prepare_extra_step_kwargs"
        ):
            raise self._foreign_noise()

    @contextmanager
    def _require_own_noise(self) -> Iterator[None]:
        """Refuse a scheduler that took noise from elsewhere than the images' own streams."""
        before = self._global_noise()
        yield
        if not all(map(torch.equal, before, self._global_noise())):
            raise self._foreign_noise()

    def _global_noise(self) -> list[torch.Tensor]:
        states = [torch.get_rng_state()]
        if self._device.type == "cuda":
            states.append(torch.cuda.get_rng_state(self._device))
        return states

    def _foreign_noise(self) -> UserError:
        return UserError(
            f"sampler is {self._settings.sampler!r}, which needs fresh noise at every step, but "
            f"the pipeline of the generator {self.name} does not let it come from each image's "
            'seed; set sampler = "ddim" or "dpm-solver++".'
        )

    def _require_finite(self, images: torch.Tensor, bad_step: int) -> None:
        if not bad_step and torch.isfinite(images).all():
            return
        where = f"at step {bad_step} of {self._steps}" if bad_step else "in its decoder"
        raise UserError(
            f"The generator {self.name} gave values that are not finite {where} "
            f'({self._settings.sampler}, {self._dtype}); use generation-precision = "float32", '
            "another sampler, more steps or another generator."
        )

    def _require_unchecked(self, output: Any, labels: NDArray[np.int64]) -> None:
        """Refuse images that a safety checker has made black.

        A checker that came with the pipeline stays on: whoever published it wanted that. But a
        black image would teach a wrong thing under the label of its class.
        """
        flags = getattr(output, "nsfw_content_detected", None) or []
        for label, flagged in zip(labels, flags, strict=False):
            if flagged:
                raise UserError(
                    f"The safety checker of the generator {self.name} has blacked out an image of "
                    f"{self._meanings[label]!r}; change generator-prompt or generator-classes, or "
                    "use a copy without the checker (safety_checker: [null, null] in "
                    "model_index.json)."
                )


def to_pixels(images: torch.Tensor, shape: tuple[int, int, int]) -> torch.Tensor:
    """Bring a pipeline's images to the shape of the dataset's.

    Parameters
    ----------
    images : tensor of float, shape (n, any height, any width, 1 or 3)
        In [0, 1], on the CPU, where resizing is the same on every machine.
    shape : tuple of int
        (height, width, channels) of the dataset.

    Returns
    -------
    tensor of uint8, shape (n, height, width, channels)
    """
    height, width, channels = shape
    planes = images.float().permute(0, 3, 1, 2)
    if planes.shape[1] != channels:
        planes = _to_grey(planes) if channels == 1 else planes.expand(-1, channels, -1, -1)
    if planes.shape[2:] != (height, width):
        planes = torch.nn.functional.interpolate(
            planes, (height, width), mode="bilinear", antialias=True
        )
    return (planes.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1)


def _to_grey(planes: torch.Tensor) -> torch.Tensor:
    luma = torch.tensor(_LUMA).view(1, 3, 1, 1)
    return (planes * luma).sum(1, keepdim=True)
