"""Sites with images of their own, made on the spot: digits as PNG files in folders."""

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

NAMES = tuple(
    f"kind-{name}"
    for name in ("nought", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
)


def write_site(root, digits, first=0, count=12, names=NAMES):
    """Write ``count`` images of each digit from the ``first`` on, below folders of their names."""
    values, labels = load_digits(return_X_y=True)
    grey = np.rint(values.reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)
    for digit in digits:
        folder = Path(root) / names[digit]
        folder.mkdir(parents=True, exist_ok=True)
        rows = np.flatnonzero(labels == digit)[first : first + count]
        for number, row in enumerate(rows):
            Image.fromarray(grey[row]).save(folder / f"patient-{number}.png")
    return Path(root)


OWN_KEYS = {
    "dataset": "own",
    "classes": ",".join(NAMES),
    "image_size": 8,
    "image_channels": 1,
    "train_samples": 0,
    "test_samples": 0,
    "num_clients": "auto",
}
