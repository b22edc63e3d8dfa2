"""From a file and ``--set`` options to settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedeas_app.errors import UserError
from fedeas_app.generators.hub import is_hub_id
from fedeas_app.reading import parse_toml
from fedeas_app.runs.resuming import lock, require_resumable, unlock
from fedeas_app.settings import Settings, allowed, read_toml

DEFAULT_CLIENTS = 10

ConfigArgument = Annotated[
    Path | None,
    typer.Argument(
        help="A TOML file, or the name of a preset such as cifar10; left out: the digits job."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Set one key of `fedeas keys`; may be repeated."
    ),
]
_PLACES = ("cache-dir", "output-dir")


def load_settings(config: Path | None, overrides: list[str] | None) -> Settings:
    """Read a configuration, apply overrides, and resolve what a simulation needs to know.

    Relative paths are taken from the current directory, since Flower runs the app in another.

    Raises
    ------
    UserError
    """
    return resolve(load_values(config, overrides))


def resumed_settings(directory: Path, overrides: list[str] | None) -> Settings:
    """Return the settings with which an interrupted run of this machine goes on.

    Raises
    ------
    UserError
        There is nothing to go on with, or an override would make another run of it.
    """
    directory = directory.absolute()
    place = {"output-dir": str(directory.parent), "run-name": directory.name, "resume": True}
    values = load_values(None, overrides) | place
    if (directory / "config.toml").is_file():
        values = read_toml(directory / "config.toml") | values
    settings = resolve(values)
    require_resumable(directory, settings)
    unlock(lock(directory))
    return settings


def load_values(config: Path | None, overrides: list[str] | None) -> dict[str, Any]:
    """Read a configuration and apply overrides; what they say is not checked yet.

    Raises
    ------
    UserError
        The file cannot be read, or an override is not ``KEY=VALUE``.
    """
    values = read_toml(_find(config)) if config is not None else {}
    return values | dict(map(parse_override, overrides or []))


def resolve(values: Mapping[str, Any]) -> Settings:
    """Return settings of a simulation: with a number of clients, and with absolute paths.

    Raises
    ------
    UserError
    """
    absolute = {key: absolute_path(key, value) for key, value in values.items()}
    if absolute.get("num-clients", "auto") == "auto":
        absolute["num-clients"] = DEFAULT_CLIENTS
    return Settings.parse(absolute)


def parse_override(text: str, option: str = "--set") -> tuple[str, Any]:
    """Split ``key=value``; the value is TOML, and what is not TOML is taken as text.

    A key that takes nothing but text gets text: ``run-name=7`` needs no quotes.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UserError(f"{option} takes KEY=VALUE, not {text!r}.")
    _refuse_nothing(key.strip(), value, option)
    parsed = _toml_or_text(value)
    keep_text = _takes_text_alone(key.strip()) and not isinstance(parsed, str)
    return key.strip(), value.strip() if keep_text else parsed


def _refuse_nothing(key: str, value: str, option: str) -> None:
    """Refuse an empty value, as of ``seed=`` or ``seed=0,``, of a key that takes more than text."""
    known = key.replace("-", "_") in Settings.model_fields
    if known and not value.strip() and not _takes_text_alone(key):
        raise UserError(f"{option} gives {key} an empty value; {allowed(key)} is allowed.")


def _toml_or_text(value: str) -> Any:
    try:
        parsed = parse_toml(f"value = {value}")["value"]
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


def absolute_path(key: str, value: Any) -> Any:
    """Take a key's value from the current directory, if it is a relative path."""
    relative = isinstance(value, str) and _is_relative_path(key, value)
    return str(Path(value).absolute()) if relative else value


def _is_relative_path(key: str, value: str) -> bool:
    if not value or value.startswith(("/", "~")):
        return False
    if key == "generator":
        return "/" in value and not is_hub_id(value)
    if key in ("dataset", "pool-dataset", "test-dataset"):  # without a dot it is a hub id
        return value.startswith(("./", "../"))
    return key in _PLACES
