"""A trained class-conditional DDPM in diffusers' layout, as a generator.

The network and the schedulers are diffusers'. What they do not say, the card that training writes
does: the class names, the null label, and how many pixels a side were folded into channels.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedeas_app.devices import (
    compile_for,
    on_device,
    release,
    resolve_device,
    resolve_precision,
)
from fedeas_app.errors import UserError, first_line
from fedeas_app.files import file_sha256_once, sha256
from fedeas_app.generators.batches import find_size, in_batches, rows_of, too_small
from fedeas_app.generators.card import FILE as CARD_FILE
from fedeas_app.generators.card import Card, CardError, read_card
from fedeas_app.generators.protocol import OnBatch
from fedeas_app.generators.sampling import (
    DEFAULT_STEPS,
    NotFiniteError,
    Recipe,
    denoise,
    describe_sampler,
    network_shape,
    to_pixels,
)
from fedeas_app.generators.scheduler_memo import Description
from fedeas_app.generators.schedulers import TooManyStepsError
from fedeas_app.reading import read_json
from fedeas_app.settings import Settings

if TYPE_CHECKING:
    from diffusers import UNet2DModel

_MOST_TIMESTEPS = 100_000
_WEIGHTS = "unet/diffusion_pytorch_model.safetensors"


class Ddpm:
    """A generator directory, a way to sample and a device.

    Parameters
    ----------
    directory : Path
        Holds ``unet/`` and ``scheduler/`` as diffusers saves them, weights in safetensors, and the
        card where there is one.
    settings : Settings
        ``generator`` for messages, the keys from ``sampler`` to ``generation_batch_size``,
        ``device``, and the cache: with what that knows of the scheduler, diffusers is loaded only
        where an image has to be made.

    Raises
    ------
    UserError
        The directory is missing or is no class-conditional DDPM, or cannot be sampled so.
    """

    def __init__(self, directory: Path, settings: Settings) -> None:
        self.name = repr(settings.generator)
        self.directory = directory
        self._settings = settings
        self._unet_config = self._read_config("unet/config.json")
        self.scheduler_config = self._read_config("scheduler/scheduler_config.json")
        self._check_network()
        self.card = self._read_card()
        self.recipe = self._choose_recipe()
        self._check_recipe()
        self._scheduler = self._describe_scheduler()

    @property
    def num_classes(self) -> int:
        """Number of classes the network was trained on; the null label is none."""
        return self._labels - (self.card.null_label is not None)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The classes on the card that training writes, or None where there is none."""
        names = self.card.classes
        return names if len(names) == self.num_classes else None

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the images."""
        channels, height, width = network_shape(self._unet_config)
        unshuffle = self.card.unshuffle
        return height * unshuffle, width * unshuffle, channels // unshuffle**2

    @cached_property
    def digest(self) -> str:
        """Hash of the weights, the network, the scheduler in use, the recipe and the precision."""
        parts = {
            "weights": file_sha256_once(self.directory / _WEIGHTS),
            "unet": self._unet_config,
            "scheduler": self._scheduler,
            "unshuffle": self.card.unshuffle,
            "recipe": asdict(self.recipe),
            "precision": self._dtype(resolve_device(self._settings.device)),
        }
        return sha256(json.dumps(parts, sort_keys=True).encode())

    @property
    def how(self) -> str:
        """Sampler, steps and precision, for messages."""
        precision = self._dtype(resolve_device(self._settings.device))
        return f"{self.recipe.sampler}, {self.recipe.steps} steps, {precision}"

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
        device = resolve_device(self._settings.device)
        try:
            for batch, sample in self._draw(labels, seeds, device):
                images[batch] = to_pixels(sample, self.card.unshuffle)
                if on_batch is not None:
                    on_batch(batch, images[batch])
        except torch.OutOfMemoryError as error:  # the network alone: batches are halved
            raise too_small(self.name) from error
        finally:
            release(device)
        return images

    def _draw(
        self, labels: NDArray[np.int64], seeds: NDArray[np.int64], device: torch.device
    ) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yield every batch; nothing but this, or an error that ended it, holds the network."""
        network = on_device(self._load_unet(getattr(torch, self._dtype(device))), device)
        attempt = partial(self._try, network, device)
        first_size = self._settings.generation_batch_size or find_size(device, attempt, self.digest)
        network = compile_for(device, network)

        def make(batch: slice, size: int) -> torch.Tensor:
            rows = rows_of(batch, size, len(labels), device)
            wanted = torch.from_numpy(labels[rows]).to(device)
            return self._denoise(network, wanted, seeds[rows])[: batch.stop - batch.start]

        yield from in_batches(make, len(labels), first_size, self.name)

    def _denoise(
        self, unet: "UNet2DModel", labels: torch.Tensor, seeds: NDArray[np.int64]
    ) -> torch.Tensor:
        """Walk one batch from noise to images in [-1, 1], shape (n, channels, height, width)."""
        try:
            return denoise(
                unet,
                self.scheduler_config,
                self.recipe,
                labels,
                seeds,
                shape=network_shape(self._unet_config),
            )
        except NotFiniteError as error:
            raise UserError(
                f"The generator {self.name} gave values that are not finite at step {error.step} "
                f"({self.how}); use another sampler, more steps, generation-precision = "
                '"float32" or another generator.'
            ) from error

    @torch.inference_mode()
    def _try(self, unet: "UNet2DModel", device: torch.device, count: int) -> None:
        """Run the network once on so many images, twice as many where guidance needs that."""
        count *= 1 + (self.recipe.guidance != 1)
        noisy = torch.zeros((count, *network_shape(self._unet_config)), device=device)
        labels = torch.zeros(count, dtype=torch.int64, device=device)
        unet(noisy.to(unet.dtype), 0, class_labels=labels)

    @property
    def _labels(self) -> int:
        return int(self._unet_config["num_class_embeds"])

    def _dtype(self, device: torch.device) -> str:
        return resolve_precision(self._settings.generation_precision, device)

    def _load_unet(self, dtype: torch.dtype) -> "UNet2DModel":
        from diffusers import UNet2DModel

        try:
            unet, report = UNet2DModel.from_pretrained(
                self.directory / "unet",
                use_safetensors=True,
                local_files_only=True,
                torch_dtype=dtype,
                output_loading_info=True,
            )
            if report["missing_keys"]:  # diffusers would leave them without a value
                raise ValueError(f"{report['missing_keys'][0]} is not among them")
        except Exception as error:  # Of diffusers, safetensors, torch: any.
            raise UserError(
                f"The weights of the generator {self.name} cannot be loaded from "
                f"{self.directory}: {first_line(error)}"
            ) from error
        return unet.eval()

    def _read_config(self, file: str) -> dict[str, Any]:
        path = self.directory / file
        try:
            content = read_json(path)
        except (OSError, ValueError) as error:
            raise UserError(
                f"The generator {self.name} has no readable {path}; name a shipped generator "
                "(digits) or a directory made by `fedeas generator train`."
            ) from error
        if not isinstance(content, dict):
            raise UserError(f"The generator {self.name} has no JSON object in {path}.")
        return content

    def _read_card(self) -> Card:
        labels, (channels, _, _) = self._labels, network_shape(self._unet_config)
        try:
            return read_card(self.directory, labels, channels)
        except CardError as error:
            raise UserError(
                f"The generator {self.name} has a card that cannot be used "
                f"({self.directory / CARD_FILE}: {error}); make the generator again."
            ) from error

    def _check_network(self) -> None:
        classes = self._unet_config.get("num_class_embeds")
        if not isinstance(classes, int) or classes < 1:
            raise UserError(
                f"The generator {self.name} is not class-conditional (num_class_embeds is "
                f"{classes!r} in {self.directory}); train one with `fedeas generator train`."
            )
        try:
            network_shape(self._unet_config)
        except (KeyError, TypeError, ValueError):
            raise UserError(
                f"The generator {self.name} does not say what images it makes (sample_size and "
                f"out_channels in {self.directory / 'unet/config.json'})."
            ) from None
        if not (self.directory / _WEIGHTS).is_file():
            raise UserError(
                f"The generator {self.name} has no weights at {self.directory / _WEIGHTS}."
            )

    def _choose_recipe(self) -> Recipe:
        settings = self._settings
        steps = settings.sampler_steps or DEFAULT_STEPS[settings.sampler]
        scale = settings.guidance_scale or 1.0
        null_label = self.card.null_label if scale != 1 else None  # unused, so not in the digest
        return Recipe(settings.sampler, steps, scale, null_label)

    def _check_recipe(self) -> None:
        recipe = self.recipe
        trained = self._train_timesteps()
        if recipe.steps > trained:
            raise UserError(
                f"sampler-steps is {recipe.steps}, but the generator {self.name} was trained with "
                f"{trained} steps; use at most that."
            )
        if recipe.guidance != 1 and recipe.null_label is None:
            raise UserError(
                f"guidance-scale is {recipe.guidance:g}, but the generator {self.name} was trained "
                "without label dropout and cannot be guided; set it to 0, or train one with "
                "--label-dropout."
            )

    def _train_timesteps(self) -> int:
        """Return the steps of the training, for each of which a scheduler keeps numbers."""
        steps = self.scheduler_config.get("num_train_timesteps", 1000)
        if type(steps) is not int or not 1 <= steps <= _MOST_TIMESTEPS:
            raise UserError(
                f"The generator {self.name} says that it was trained with {steps!r} steps "
                f"(num_train_timesteps in {self.directory}); a whole number from 1 to "
                f"{_MOST_TIMESTEPS:,} is allowed."
            )
        return steps

    def _describe_scheduler(self) -> Description:
        recipe = self.recipe
        try:
            return describe_sampler(self.scheduler_config, recipe, self._settings.cache_path)
        except TooManyStepsError as error:
            raise UserError(
                f"sampler-steps is {recipe.steps}, which is more than {recipe.sampler} can tell "
                f"apart with the generator {self.name}; use fewer, or 0 for "
                f"{DEFAULT_STEPS[recipe.sampler]}."
            ) from error
        except Exception as error:  # Of diffusers, numpy, torch: any.
            raise UserError(
                f"The generator {self.name} has a scheduler that {recipe.sampler} cannot be made "
                f"of ({first_line(error)}); use another sampler or generator."
            ) from error
