"""The configuration of one SuperNode (``--node-config``), which its operator writes.

A run decides what is trained; where a node reads and writes is its operator's to say. Deployed, a
node follows no path of the run configuration.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedeas_app.data.sources import is_local
from fedeas_app.errors import PublicError, UserError
from fedeas_app.generators.registry import names_path
from fedeas_app.settings import (
    DEVICE,
    DEVICES_IN_WORDS,
    OWN,
    Settings,
    Value,
    explain,
    kebab,
    refuse_relative,
)

_PLACES = ("cache-dir", "output-dir")
_NEEDS = '--node-config "partition-id=0 num-partitions=3" (numbers of your own)'


class NodeSettings(BaseModel):
    """What a SuperNode is told at its start; empty texts and 0 stand for what it is not told.

    Attributes
    ----------
    partition_id : int
        The site's number in the record.
    num_partitions : int
        Into how many parts a shared dataset is split.
    data_path : str
        The site's own images, or its copy of a shared dataset.
    cache_dir : str
        Where decoded and synthetic images go; empty: the default, ``~/.cache/fedeas``.
    device : str
        Empty: the run's.
    generator_path : str
        A generator's directory, in the place of the one that the run names.
    """

    model_config = ConfigDict(alias_generator=kebab, extra="forbid", frozen=True, strict=True)

    partition_id: Annotated[int, Field(ge=0)]
    num_partitions: Annotated[int, Field(ge=0)] = 0
    data_path: str = ""
    cache_dir: str = ""
    device: str = Field("", pattern=f"^$|{DEVICE}", json_schema_extra={"allowed": DEVICES_IN_WORDS})
    generator_path: str = ""

    @model_validator(mode="after")
    def _paths_do_not_depend_on_where_flower_runs(self) -> Self:
        for key in ("data_path", "cache_dir", "generator_path"):
            if value := getattr(self, key):
                refuse_relative(key, value)
        return self

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> "NodeSettings":
        """Validate a node's configuration.

        Raises
        ------
        UserError
            Names each key, what was given and what is allowed.
        """
        if "partition-id" not in values:
            raise UserError(f"This SuperNode has no partition; start it with {_NEEDS}.")
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            mistakes = " ".join(explain(error, cls))
            raise UserError(f"In this SuperNode's --node-config: {mistakes}") from None

    def count_partitions(self, settings: Settings) -> int:
        """Return into how many parts the run's dataset is split; 1 where every node has its own.

        Raises
        ------
        UserError
            It is not known, or does not go with the node's partition or with the run.
        """
        number, count = self.partition_id, self.num_partitions
        if settings.dataset == OWN:
            return 1
        if not count:
            raise UserError(f"This SuperNode has no partition; start it with {_NEEDS}.")
        if number >= count:
            raise UserError(
                f"partition-id is {number}, but num-partitions is {count}; 0 to {count - 1} is "
                "allowed."
            )
        if settings.num_clients not in ("auto", count):
            raise UserError(
                f"num-clients is {settings.num_clients}, but this SuperNode's num-partitions is "
                f"{count}; they must agree."
            )
        return count

    def own_data(self, settings: Settings) -> Path | None:
        """Return where this node's own images are; None where the run's dataset is shared.

        Raises
        ------
        UserError
            The run wants them, and the node has no ``data-path``.
        """
        if settings.dataset != OWN:
            return None
        if not self.data_path:
            raise UserError(
                f"dataset is {OWN!r}, but this SuperNode has no data; name its images with "
                "data-path in --node-config."
            )
        return Path(self.data_path).expanduser()

    def localise(self, settings: Settings) -> Settings:
        """Put the node's own places and device into a run's settings.

        Deployed, the cache is the node's whatever the run says.

        Raises
        ------
        UserError
            The run names a path for which the node has none of its own.
        """
        own = self._choices(settings)
        if not in_simulation():
            _refuse_paths(settings, own)
            own = {key: Settings.parse({}).to_flat()[key] for key in _PLACES} | own
        return Settings.parse(settings.to_flat() | own)

    def _choices(self, settings: Settings) -> dict[str, Value]:
        """Return what this node decides of a run, by the run's keys."""
        choices: dict[str, Value] = {"cache-dir": self.cache_dir, "device": self.device}
        if is_local(settings.dataset):
            choices["dataset"] = self.data_path
        if settings.generator == OWN or names_path(settings.generator):
            choices["generator"] = self.generator_path
        return {key: value for key, value in choices.items() if value}


def in_simulation() -> bool:
    """Tell a simulated node from a deployed one: only simulation runs clients as Ray actors.

    A deployed node's process imports no Ray. In doubt it is deployed, which allows less.
    """
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    return ray.get_runtime_context().get_actor_id() is not None


def _refuse_paths(settings: Settings, own: Mapping[str, Value]) -> None:
    paths = {
        "dataset": (
            is_local(settings.dataset),
            "name the site's copy with data-path in --node-config",
        ),
        "pool-dataset": (is_local(settings.pool_dataset), "a hub id can be had"),
        "generator": (
            names_path(settings.generator),
            "name the site's copy with generator-path in --node-config",
        ),
    }
    for key, (is_path, advice) in paths.items():
        if is_path and key not in own:
            raise PublicError(
                f"{key} is {settings.to_flat()[key]!r} in the run configuration, but a SuperNode "
                f"reads no path that its operator did not name; {advice}."
            )
