"""Give each site digits of its own, as images in folders: the parts of a simulation's clients."""

import sys
from pathlib import Path

from PIL import Image

from fedeas_app import data
from fedeas_app.data.split import Split
from fedeas_app.settings import Settings

SITES = 3


def main(root: Path) -> None:
    """Divide the digits' training part among the directories ``root/0``, ``root/1``, ``root/2``."""
    settings = Settings.parse({"dataset": "digits", "num-clients": SITES, "alpha": 0.1})
    train = data.load_split(settings, "train")
    for site, rows in enumerate(data.partition(train.labels, SITES, settings)):
        write_images(root / str(site) / "images", train, rows.tolist())
        print(f"site-{site}: {len(rows)} images of {len(set(train.labels[rows]))} digits")


def write_images(target: Path, train: Split, rows: list[int]) -> None:
    """Write ``target/CLASS/ROW.png``; what is there already stays."""
    if target.exists():
        return
    part = target.with_suffix(".part")
    for row in rows:
        folder = part / train.class_names[train.labels[row]]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(train.images[row, :, :, 0]).save(folder / f"{row}.png")
    part.rename(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
