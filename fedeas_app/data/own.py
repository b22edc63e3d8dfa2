"""Data that only one site has, and the server's test set beside it."""

from pathlib import Path

from fedeas_app.data.divisions import (
    ALL_FOR_TESTING,
    ALL_FOR_TRAINING,
    FIFTH,
    FIFTH_WHERE_POSSIBLE,
)
from fedeas_app.data.sources import DIGITS
from fedeas_app.data.split import Split, SplitName, load_split
from fedeas_app.settings import OWN, Settings


def load_own(settings: Settings, path: Path, split: SplitName) -> Split:
    """Load what a site trains on, or what it holds out.

    Where the server has a test set, nothing is held out. Else it is the site's own test split or,
    without one, a fifth of each class; it may be empty.

    Parameters
    ----------
    settings : Settings
        Class list, image size and channels of the run.
    path : Path
        Absolute; what ``dataset`` could name.
    split : {"train", "test"}

    Raises
    ------
    UserError
        As for :func:`load_split`, or an image is of a class that the list lacks.
    """
    division = ALL_FOR_TRAINING if settings.test_dataset else FIFTH_WHERE_POSSIBLE
    return load_split(settings.reading(str(path)), split, division=division)


def load_test_dataset(settings: Settings) -> Split | None:
    """Load the server's test set: all images of a dataset without a test split; None if none is.

    Raises
    ------
    UserError
        As for :func:`load_own`.
    """
    if not settings.test_dataset:
        return None
    division = FIFTH if settings.test_dataset == DIGITS else ALL_FOR_TESTING
    reading = settings.reading(settings.test_dataset)
    return load_split(reading, "test", verify=True, division=division)


def classes_and_shape(settings: Settings) -> tuple[tuple[str, ...], tuple[int, int, int]]:
    """Return the class list of a run, and (height, width, channels) of its images.

    Raises
    ------
    UserError
        The dataset cannot be loaded.
    """
    if settings.dataset == OWN:
        return settings.class_list, settings.own_shape
    train = load_split(settings, "train")
    return train.class_names, train.image_shape
