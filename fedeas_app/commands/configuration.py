"""From a file and ``--set`` options to settings."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from fedeas_app.errors import UserError
from fedeas_app.generators.hub import is_hub_id
from fedeas_app.settings import Settings, read_toml

DEFAULT_CLIENTS = 10

ConfigArgument = Annotated[
    Path | None, typer.Argument(help="A TOML file, or the name of a preset such as cifar10.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one key; may be repeated."),
]
_PLACES = ("cache-dir", "output-dir")


def load_settings(config: Path | None, overrides: list[str] | None) -> Settings:
    """Read a configuration, apply overrides, and resolve what a simulation needs to know.

    Relative paths are taken from the current directory, since Flower runs the app in another.

    Raises
    ------
    UserError
    """
    values = read_toml(_find(config)) if config is not None else {}
    for override in overrides or []:
        key, value = parse_override(override)
        values[key] = value
    if values.get("num-clients", "auto") == "auto":
        values["num-clients"] = DEFAULT_CLIENTS
    return Settings.parse(_with_absolute_paths(values))


def parse_override(text: str) -> tuple[str, Any]:
    """Split ``key=value``; the value is TOML, and what is not TOML is taken as text.

    A key that takes nothing but text gets text: ``run-name=7`` needs no quotes.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UserError(f"--set takes KEY=VALUE, not {text!r}.")
    parsed = _toml_or_text(value)
    keep_text = _takes_text_alone(key.strip()) and not isinstance(parsed, str)
    return key.strip(), value.strip() if keep_text else parsed


def _toml_or_text(value: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except ValueError:
        return value.strip()
    # No key takes a date or a list, but a text may look like one: run-name=2025-01-31.
    return parsed if isinstance(parsed, bool | int | float | str) else value.strip()


def _takes_text_alone(key: str) -> bool:
    field = Settings.model_fields.get(key.replace("-", "_"))
    return field is not None and field.annotation is str


def app_root() -> Path:
    """Return the directory that holds the app: the clone it was installed from, or the bundle."""
    package = Path(__file__).parents[1]
    clone = package.parent
    return clone if (clone / "pyproject.toml").is_file() else package / "bundle"


def _find(config: Path) -> Path:
    """Return a file, or the preset of that name when there is no such file.

    A path with a directory in it never means a preset: a mistyped one must not run another job.
    """
    presets = {path.stem: path for path in sorted((app_root() / "conf").glob("*.toml"))}
    if config.is_file():
        return config
    if config.parent == Path() and config.name.removesuffix(".toml") in presets:
        return presets[config.name.removesuffix(".toml")]
    raise UserError(
        f"There is no configuration file {config} and no preset of that name; the presets are "
        f"{', '.join(presets)}."
    )


def _with_absolute_paths(values: dict[str, Any]) -> dict[str, Any]:
    resolved = dict(values)
    for key, value in values.items():
        if isinstance(value, str) and _is_relative_path(key, value):
            resolved[key] = str(Path(value).absolute())
    return resolved


def _is_relative_path(key: str, value: str) -> bool:
    if not value or value.startswith(("/", "~")):
        return False
    if key == "generator":
        return "/" in value and not is_hub_id(value)
    if key in ("dataset", "pool-dataset"):  # without a dot it is a hub id
        return value.startswith(("./", "../"))
    return key in _PLACES
