"""Small datasets made on the spot."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from fedeas_app.settings import Settings


@pytest.fixture
def settings_of(tmp_path: Path) -> Callable[..., Settings]:
    def make(dataset: object = "digits", **keys: object) -> Settings:
        kebab = {key.replace("_", "-"): value for key, value in keys.items()}
        return Settings.parse(
            {"dataset": str(dataset), "cache-dir": str(tmp_path / "cache")} | kebab
        )

    return make


@pytest.fixture
def pixels() -> Callable[..., list[NDArray[np.uint8]]]:
    def make(count: int, shape: tuple[int, ...] = (6, 5, 3), seed: int = 0) -> list:
        rng = np.random.default_rng(seed)
        return list(rng.integers(0, 256, (count, *shape), dtype=np.uint8))

    return make


@pytest.fixture
def png() -> Callable[[NDArray[np.uint8]], bytes]:
    def encode(array: NDArray[np.uint8]) -> bytes:
        stream = BytesIO()
        Image.fromarray(array).save(stream, format="png")
        return stream.getvalue()

    return encode
