"""What a user should know about the data of a run and no number of its plan shows."""

from fedeas_app.data.scenarios import describe_in_words
from fedeas_app.data.sources import empty_classes
from fedeas_app.settings import Settings


def remarks(num_clients: int, settings: Settings) -> list[str]:
    """Return a line for each kind of poor client, and for each class folder without an image.

    Raises
    ------
    UserError
        The local path of the dataset does not exist.
    """
    return [*describe_in_words(num_clients, settings), *empty_folders(settings)]


def empty_folders(settings: Settings) -> list[str]:
    """Return a line for each folder of an image folder's classes that has no image."""
    return [_about(name, settings) for name in empty_classes(settings)]


def _about(name: str, settings: Settings) -> str:
    folder = f"The folder {name!r} of {settings.dataset} has no image"
    if name in settings.class_list:
        return f"{folder}: this class is absent."
    return f"{folder} and is no class of the run; to have it count as absent, list all in classes."
