"""The directory of a diffusers pipeline: what it says of itself, and its parts.

They are loaded here one by one, and the pipeline is put together of them: diffusers would import
any installed library that the directory names and code that lies in it, and would leave weights
that are missing at random values.
"""

import importlib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch

from fedeas_app.errors import UserError, first_line
from fedeas_app.files import file_sha256_once
from fedeas_app.reading import read_json
from fedeas_app.wording import in_one_line

INDEX = "model_index.json"
SCHEDULER = "scheduler"

_LIBRARIES = ("diffusers", "transformers")
_ABSENT = [None, None]  # how the index says that an optional part is left out
_READ = (".json", ".txt", ".model", ".safetensors")
_PICKLES = (".bin", ".ckpt", ".pt", ".pth")
_LONGEST = 100  # characters of a part's name
_COUNTS = ("num_embeds_ada_norm", "num_class_embeds")  # what networks call their classes
_STEERED_BY = {"generator", "num_inference_steps", "output_type"}


class PipelineDirectory:
    """A directory in the layout of diffusers' ``save_pretrained``; no weights are loaded yet.

    Parameters
    ----------
    root : Path
    name : str
        Of the generator, for messages.

    Raises
    ------
    UserError
        It is no pipeline that makes images from class labels or prompts, or not a safe one.
    """

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self._name = name
        self.index = self._read(INDEX)
        self._parts = dict(self._list_parts())
        for part in self._parts:
            self._require_safetensors(part)
        self._require_transformers()
        self.parameters: Mapping[str, inspect.Parameter] = inspect.signature(
            self.pipeline_class.__call__
        ).parameters
        self._require_usable()

    @cached_property
    def pipeline_class(self) -> Any:
        """The class of the pipeline in diffusers."""
        import diffusers

        wanted = self.index.get("_class_name")
        found = getattr(diffusers, wanted, None) if isinstance(wanted, str) else None
        if not (isinstance(found, type) and issubclass(found, diffusers.DiffusionPipeline)):
            raise self._mistake(f"is a {wanted!r}, which is no pipeline of diffusers")
        return found

    @cached_property
    def condition(self) -> Literal["class_labels", "prompt"]:
        """What the pipeline makes images from."""
        if "class_labels" in self.parameters:
            return "class_labels"
        from diffusers.pipelines.auto_pipeline import AUTO_TEXT2IMAGE_PIPELINES_MAPPING

        if self.pipeline_class in AUTO_TEXT2IMAGE_PIPELINES_MAPPING.values():
            return "prompt"
        raise self._mistake(
            f"is a {self.pipeline_class.__name__}, which makes no images from class labels or from "
            "a prompt alone"
        )

    @property
    def uses_transformers(self) -> bool:
        """Whether a part needs that library; those of a pipeline's own may."""
        return any(library != "diffusers" for library, _ in self._parts.values())

    @property
    def id2label(self) -> dict[str, str]:
        """Names of the classes, where the directory has them."""
        names = self.index.get("id2label") or {}
        if not isinstance(names, dict) or not all(map(str.isdecimal, names)):
            raise self._mistake(f"has an id2label in {INDEX} that is no table of numbered names")
        return {number: str(name) for number, name in names.items()}

    @property
    def num_classes(self) -> int:
        """Classes that a class-conditional pipeline knows."""
        for part in self._parts:
            config = self._read(f"{part}/config.json") if self._has_config(part) else {}
            for key in _COUNTS:
                if isinstance(config.get(key), int):
                    return int(config[key])
        raise self._mistake("does not say how many classes it knows")

    def digests(self) -> dict[str, str]:
        """Return the hash of each file that images depend on, by its path."""
        files = [self.root / INDEX]
        for part in self._parts:
            files += [path for path in (self.root / part).rglob("*") if path.suffix in _READ]
        return {str(path.relative_to(self.root)): file_sha256_once(path) for path in sorted(files)}

    def load(self, dtype: torch.dtype) -> Any:
        """Return the pipeline, its networks in one precision.

        Raises
        ------
        UserError
            A part cannot be loaded, or they do not fit together.
        """
        with _quiet():
            parts = {name: self.load_part(name, dtype) for name in self._parts}
            try:
                pipeline = self.pipeline_class(**self._options() | parts)
            except (TypeError, ValueError, AttributeError, LookupError) as error:
                raise self._damaged(error) from error
        pipeline.set_progress_bar_config(disable=True)
        return pipeline

    def load_part(self, part: str, dtype: torch.dtype = torch.float32) -> Any:
        """Return one part of the pipeline."""
        kind = self._class_of(part)
        options: dict[str, Any] = {"local_files_only": True}
        network = issubclass(kind, torch.nn.Module)
        if network:
            # Each library has its own word for it.
            precision = "dtype" if self._is_from_transformers(kind) else "torch_dtype"
            options |= {"use_safetensors": True, "output_loading_info": True, precision: dtype}
        try:
            loaded = kind.from_pretrained(self.root / part, **options)
            return _whole(*loaded) if network else loaded
        except Exception as error:  # Of diffusers, transformers, tokenizers, safetensors: any.
            raise self._damaged(error, part) from error

    def _read(self, file: str) -> dict[str, Any]:
        path = self.root / file
        try:
            content = read_json(path)
        except (OSError, ValueError) as error:
            raise self._mistake(f"has no readable {path}") from error
        if not isinstance(content, dict):
            raise self._mistake(f"has no JSON object in {path}")
        return content

    def _list_parts(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield the parts, which are given as a library and a class; other entries are options."""
        for part, value in self.index.items():
            pair = isinstance(value, list) and len(value) == 2
            if part.startswith("_") or not pair or not all(isinstance(v, str) for v in value):
                continue
            if not part.isidentifier() or len(part) > _LONGEST:
                raise self._mistake(f"has a part of the name {part!r} in {INDEX}")
            yield part, (value[0], value[1])

    def _class_of(self, part: str) -> Any:
        """Return the class of a part, which must be of diffusers or transformers."""
        from diffusers import pipelines

        library, name = self._parts[part]
        if library in _LIBRARIES:
            found = getattr(importlib.import_module(library), name, None)
        else:  # defined beside a pipeline of diffusers, as the safety checker is
            found = getattr(getattr(pipelines, library, None), name, None)
        if not isinstance(found, type) or not hasattr(found, "from_pretrained"):
            raise self._mistake(
                f"needs {in_one_line(f'{library}.{name}')} as its {part}, which is not in the "
                "diffusers and transformers installed here (code of other origin is never run)"
            )
        return found

    def _options(self) -> dict[str, Any]:
        """Return the pipeline's arguments that are no parts, and its parts that are left out."""
        known = inspect.signature(self.pipeline_class.__init__).parameters
        absent = dict.fromkeys(self.pipeline_class._optional_components)
        given = {key: value for key, value in self.index.items() if key in known}
        return absent | {key: None if value == _ABSENT else value for key, value in given.items()}

    def _has_config(self, part: str) -> bool:
        return (self.root / part / "config.json").is_file()

    def _is_from_transformers(self, kind: type) -> bool:
        import diffusers

        return not issubclass(kind, diffusers.ModelMixin)

    def _require_safetensors(self, part: str) -> None:
        suffixes = {path.suffix for path in (self.root / part).glob("*")}
        if ".safetensors" not in suffixes and suffixes & set(_PICKLES):
            raise UserError(
                f"The generator {self._name} has the weights of its {part} only as pickle, which "
                "can run any code; load it with diffusers where you trust it and save it with "
                "save_pretrained, or name a commit that has safetensors."
            )

    def _require_transformers(self) -> None:
        if self.uses_transformers and find_spec("transformers") is None:
            raise UserError(
                f"The generator {self._name} reads text and needs the package transformers, which "
                "is not installed; install the extra `text` (fedeas[text])."
            )

    def _require_usable(self) -> None:
        missing = _STEERED_BY - set(self.parameters) or {SCHEDULER} - set(self._parts)
        if missing or self.pipeline_class._load_connected_pipes:
            raise self._mistake(
                f"is a {self.pipeline_class.__name__}, which cannot be told the noise, the steps "
                "and the scheduler"
            )
        self._class_of(SCHEDULER)
        _ = self.condition

    def _mistake(self, what: str) -> UserError:
        return UserError(
            f"The generator {self._name} {what}; name the directory or hub id of a diffusers "
            "pipeline that makes images from class labels or from a prompt."
        )

    def _damaged(self, error: Exception, part: str = "") -> UserError:
        if isinstance(error, UserError):
            return error
        return UserError(
            f"The generator {self._name} cannot be loaded from {self.root / part}: "
            f"{first_line(error)}"
        )


def _whole(network: Any, report: Mapping[str, Any]) -> Any:
    """Return a network all of whose weights were in its files."""
    absent = sorted(map(str, report["missing_keys"]))
    if absent:
        raise ValueError(f"the weight {absent[0]} is not in its files")
    return network.eval()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the loading bars of transformers off the screen."""
    if find_spec("transformers") is None:
        yield
        return
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
