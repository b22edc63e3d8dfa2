"""What an entry of the cache is, for a person."""

from collections.abc import Callable
from pathlib import Path

from fedeas_app.inventory.listing import Entry, Kind
from fedeas_app.reading import read_array, read_json


def describe(entry: Entry) -> str:
    """Say in a few words what an entry is, as far as it can be read."""
    if not entry.finished:
        return "unfinished, or left by an interrupted process"
    try:
        return _DESCRIBE[entry.kind](entry.path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError):
        return "not readable"


def shard_shape(path: Path) -> tuple[int, ...] | None:
    """Return the shape of a shard's images from its header alone; None when it has none."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as shard:
            return tuple(shard.get_slice("images").get_shape())
    except (OSError, SafetensorError):
        return None


def _describe_dataset(path: Path) -> str:
    meta = read_json(path / "meta.json")
    count, height, width, _ = meta["shape"]
    return f"{meta['dataset']} {meta['split']}: {count:,} images of {height}x{width}"


def _describe_partition(path: Path) -> str:
    sizes = read_array(path / "sizes.npy")
    return f"{sizes.sum():,} images for {len(sizes):,} clients"


def _describe_generator(path: Path) -> str:
    return f"unpacked generator {path.name.rpartition('-')[0]!r}"


def _describe_scheduler(path: Path) -> str:
    origin = read_json(path / "description.json")["origin"]
    return f"scheduler for {origin['steps']:,} steps of {origin['sampler']}"


def _describe_drawer(path: Path) -> str:
    shapes = (shard_shape(shard) for shard in path.glob("*.safetensors"))
    images = f"{sum(shape[0] for shape in shapes if shape):,} images"
    try:
        about = read_json(path / "drawer.json")
        return f"{images} by {about['generator']}, {about['machine'] or 'any machine'}"
    except (OSError, ValueError, KeyError, TypeError):  # older than the file that says it
        return f"{images} by a generator not recorded"


def _describe_states(path: Path) -> str:
    clients = {state.name.partition("-")[0] for state in path.glob("*.safetensors")}
    return f"kept between the rounds of one run by {len(clients):,} clients"


_DESCRIBE: dict[Kind, Callable[[Path], str]] = {
    Kind.DATASETS: _describe_dataset,
    Kind.PARTITIONS: _describe_partition,
    Kind.GENERATORS: _describe_generator,
    Kind.SCHEDULERS: _describe_scheduler,
    Kind.SYNTHETIC: _describe_drawer,
    Kind.CLIENT_STATES: _describe_states,
}
