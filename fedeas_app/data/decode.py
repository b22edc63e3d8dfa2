"""From encoded images of any kind to one array of bytes."""

import io
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedeas_app.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

Encoded = bytes | Path | NDArray[np.uint8] | None
NamedImage = tuple[str, Encoded]

# Larger images are a mistake, or an attack: a few kilobytes can unpack to gigabytes.
MAX_PIXELS = 64_000_000
_PIECE = 2**20  # pixels


class Layout(NamedTuple):
    """What every image of a dataset is brought to."""

    mode: str  # of Pillow: "L" or "RGB"
    width: int
    height: int
    resize: bool  # images of another size are resized, not refused
    to_grey: bool  # and colour is made grey, not refused


def write_images(
    path: Path, images: Iterator[NamedImage], count: int, size: int, channels: int = 0
) -> None:
    """Decode images one by one into an ``.npy`` file of shape (count, H, W, channels), uint8.

    Memory stays at one image, whatever their number. Unless ``channels`` says so, the first image
    decides for all: grey (one channel) when it is stored in grey or black and white, RGB otherwise.

    Parameters
    ----------
    path : Path
        The file to write.
    images : iterator of (str, bytes or Path or ndarray or None)
        How an error message calls the image, and an encoded image, a file of one, or grey values
        (H, W); None where the source has none.
    count : int
        How many there are.
    size : int
        Sides in pixels to resize to; 0 keeps the stored size, which must then be one for all.
    channels : int
        1: colour becomes its luminance (ITU-R 601); 3: grey becomes colour; 0: as stored.

    Raises
    ------
    UserError
        An image is missing, unreadable, enormous or of another size, or the disk is full.
    """
    if count == 0:
        np.save(path, np.empty((0, size, size, channels), np.uint8), allow_pickle=False)
        return
    with warnings.catch_warnings():
        # Pillow warns of large and of slightly odd images; the limit here is a hard one.
        warnings.simplefilter("ignore")
        try:
            _write(path, images, count, size, channels)
        except OSError as error:
            raise UserError(
                f"The decoded images cannot be written to {path.parent.parent} "
                f"({error.strerror or error}); free space there or name another cache-dir."
            ) from error


def _write(path: Path, images: Iterator[NamedImage], count: int, size: int, channels: int) -> None:
    first_name, encoded = next(images)
    first = open_image(first_name, encoded)
    layout = _layout(first, size, channels)
    pixels = to_pixels(first_name, first, layout)
    shape = (count, *pixels.shape)
    _check_space(path, count * pixels.nbytes)
    # Plain writes instead of a writable memory map: a full disk is then an error, not a SIGBUS.
    with open(path, "wb") as stream:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
        stream.write(pixels.data)
        for name, encoded in images:
            stream.write(to_pixels(name, open_image(name, encoded), layout).data)


def open_image(name: str, encoded: Encoded) -> "Image.Image":
    """Decode one image, turned upright where its metadata say so.

    Raises
    ------
    UserError
        It is missing, unreadable or larger than :data:`MAX_PIXELS`.
    """
    from PIL import Image, ImageOps

    if encoded is None:
        raise UserError(f"Image {name} is empty; remove that row or give it an image.")
    if isinstance(encoded, Path) and not encoded.is_file():  # a pipe would never end
        raise UserError(f"Image {name} is no file; remove it.")
    try:
        image = _open(encoded)
        if image.width * image.height <= MAX_PIXELS:
            return ImageOps.exif_transpose(image)
        found = f"{image.width}×{image.height} pixels"
    except Image.DecompressionBombError:
        found = "more pixels than any photograph"
    except Exception as error:  # Each decoder has exceptions of its own.
        reason = str(error).rstrip(".")
        raise UserError(f"Image {name} cannot be read ({reason}); repair or remove it.") from error
    limit = MAX_PIXELS // 1_000_000
    raise UserError(
        f"Image {name} has {found}; at most {limit} megapixels are allowed, make it smaller."
    )


def to_pixels(name: str, image: "Image.Image", layout: Layout) -> NDArray[np.uint8]:
    """Bring one image to the dataset's layout: an array (H, W, channels) of 0..255.

    Raises
    ------
    UserError
        Its size differs and may not be changed, or its values are fractions.
    """
    from PIL import Image

    image = _to_mode(name, image, layout)
    wanted = (layout.width, layout.height)
    if image.size != wanted and not layout.resize:
        raise UserError(
            f"Image {name} has {image.width}×{image.height} pixels, the first one "
            f"{layout.width}×{layout.height}; set image-size to bring all to one size."
        )
    if image.size != wanted:
        image = image.resize(wanted, Image.Resampling.BILINEAR)
    return np.asarray(image, dtype=np.uint8).reshape(layout.height, layout.width, -1)


def _open(encoded: "bytes | Path | NDArray[np.uint8]") -> "Image.Image":
    from PIL import Image

    if isinstance(encoded, np.ndarray):
        return Image.fromarray(encoded)
    return Image.open(io.BytesIO(encoded) if isinstance(encoded, bytes) else encoded)


def _layout(first: "Image.Image", size: int, channels: int) -> Layout:
    grey = first.mode in {"1", "L"} or first.mode.startswith("I")
    mode = "L" if (channels or (1 if grey else 3)) == 1 else "RGB"
    width, height = (size, size) if size else first.size
    return Layout(mode, width, height, resize=size > 0, to_grey=channels == 1)


def _narrow(wide: NDArray[np.integer]) -> NDArray[np.uint8]:
    """Bring 16 bits to 8, rounded; in pieces, as wider numbers would take gigabytes."""
    flat, narrow = np.ravel(wide), np.empty(wide.size, np.uint8)
    for start in range(0, len(flat), _PIECE):
        piece = slice(start, start + _PIECE)
        narrow[piece] = (flat[piece].clip(0, 65_535).astype(np.uint32) + 128) // 257
    return narrow.reshape(wide.shape)


def _to_mode(name: str, image: "Image.Image", layout: Layout) -> "Image.Image":
    from PIL import Image

    if image.mode == "F":
        raise UserError(f"Image {name} holds fractions; store its values with 8 or 16 bits.")
    if image.mode.startswith("I"):  # 16 bits; Pillow's own conversion would cut off above 255
        image = Image.fromarray(_narrow(np.asarray(image)))
    unexpected = layout.mode == "L" and image.mode != "L" and not layout.to_grey
    if unexpected and _is_coloured(image):
        raise UserError(
            f"Image {name} is in colour, but the first one is grey; set image-channels to bring "
            "all of them to one kind."
        )
    return image if image.mode == layout.mode else image.convert(layout.mode)


def _is_coloured(image: "Image.Image") -> bool:
    """Tell colour from grey values that are stored as colours."""
    red, green, blue = np.moveaxis(np.asarray(image.convert("RGB")), -1, 0)
    return not (np.array_equal(red, green) and np.array_equal(green, blue))


def _check_space(path: Path, needed: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise UserError(
            f"The decoded images need {needed / 1e6:,.1f} MB, but the disk of "
            f"{path.parent.parent} has {free / 1e6:,.1f} MB free; "
            "choose a smaller image-size or another cache-dir."
        )
